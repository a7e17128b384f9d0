"""Tells operators of somebody who is so old in Postgres that commits slow down.

It is nothing that a broker could end: a backup, a report, a session that somebody left, a standby.
Where Postgres does not say how old it is, it counts how many transactions were begun since.
"""

from typing import Final

import structlog

from storage.metadata.oldest_xmin import OldestXmin

OLD_S: Final = 5 * 60.0
MANY_TRANSACTIONS: Final = 100_000
"""A standby tells of what is ten seconds old, in which a busy server begins a tenth of these."""

log = structlog.get_logger()


def warn_if_old(oldest: OldestXmin | None) -> None:
    """Say who it is, if it is old."""
    if oldest is not None and _is_old(oldest):
        log.warning(
            "commits slow down: postgres keeps dead rows for an old transaction",
            kind=oldest.kind,
            name=oldest.name,
            application=oldest.application,
            pid=oldest.pid,
            seconds=None if oldest.seconds is None else round(oldest.seconds),
            transactions_since=oldest.transactions,
        )


def _is_old(oldest: OldestXmin) -> bool:
    if oldest.seconds is None:
        return oldest.transactions >= MANY_TRANSACTIONS
    return oldest.seconds >= OLD_S
