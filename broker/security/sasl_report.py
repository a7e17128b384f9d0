"""What metrics and the log tell of authentications: how many of each mechanism, and why not."""

from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from broker.network.refused_connections import RefusalLog
from protocol.sasl import AuthenticationFailed

_USER_SHOWN: Final = 64

log = structlog.get_logger()


class SaslReport:
    """Counts, and writes a bounded number of lines."""

    def __init__(self, registry: CollectorRegistry, refusals: RefusalLog) -> None:
        self._succeeded = Counter(
            "streamhouse_authentications",
            "Clients that have proven who they are (SASL).",
            ("mechanism",),
            registry=registry,
        )
        self._failed = Counter(
            "streamhouse_failed_authentications",
            "Clients that could not prove who they are (SASL).",
            ("mechanism",),
            registry=registry,
        )
        self._expired = Counter(
            "streamhouse_expired_sessions",
            "Connections closed because their client did not authenticate itself again in time.",
            registry=registry,
        )
        self._lines = refusals

    def prepare(self, mechanisms: tuple[str, ...]) -> None:
        """Export the counts of the enabled mechanisms from the start."""
        for mechanism in mechanisms:
            self._succeeded.labels(mechanism)
            self._failed.labels(mechanism)

    def succeeded(self, mechanism: str) -> None:
        self._succeeded.labels(mechanism).inc()

    def failed(self, mechanism: str, host: str, failure: AuthenticationFailed) -> None:
        """Take note of one; the user's name is what the client claims."""
        self._failed.labels(mechanism).inc()
        self._lines.write(
            "authentication failed",
            kind=f"authentication: {failure.reason}",
            mechanism=mechanism,
            user=shown(failure.user),
            ip=host,
        )

    def unknown_mechanism(self, mechanism: str, host: str) -> None:
        """Take note of a client that asked for what is not enabled."""
        kind = "authentication: mechanism not enabled"
        self._lines.write("authentication failed", kind=kind, mechanism=shown(mechanism), ip=host)

    def expired(self) -> None:
        self._expired.inc()


def shown(text: str) -> str:
    """Return what a client sent for the log: short, and with nothing that a terminal obeys."""
    return text[:_USER_SHOWN].encode("unicode_escape").decode("ascii")
