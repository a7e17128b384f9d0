"""Who is told of, because commits slow down."""

import pytest
from structlog.testing import capture_logs

from broker.upkeep.old_xmin import MANY_TRANSACTIONS, OLD_S, warn_if_old
from storage.metadata.oldest_xmin import OldestXmin


def backup(seconds: float | None, transactions: int) -> OldestXmin:
    return OldestXmin(
        kind="session",
        name="alice",
        application="pg_dump",
        pid=7,
        seconds=seconds,
        transactions=transactions,
    )


@pytest.mark.parametrize(
    ("seconds", "transactions", "is_told"),
    [
        (OLD_S, 0, True),
        (OLD_S - 1, 10 * MANY_TRANSACTIONS, False),
        (None, MANY_TRANSACTIONS, True),
        (None, MANY_TRANSACTIONS - 1, False),
    ],
)
def test_an_old_transaction_is_told(
    seconds: float | None, transactions: int, is_told: bool
) -> None:
    with capture_logs() as logs:
        warn_if_old(backup(seconds, transactions))
    assert [(line["application"], line["pid"]) for line in logs] == [("pg_dump", 7)] * is_told


def test_nothing_is_told_of_nobody() -> None:
    with capture_logs() as logs:
        warn_if_old(None)
    assert logs == []
