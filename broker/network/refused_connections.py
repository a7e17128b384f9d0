"""Why connections are refused: what metrics count, and what the log tells without being flooded.

Whoever can reach a port can make the broker refuse as often as it likes. So the log has a few lines
per second and reason, and then one with the count of those left out; metrics count them all.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import structlog

LINES_PER_WINDOW: Final = 5
WINDOW_S: Final = 1.0

log = structlog.get_logger()


class Refused(StrEnum):
    """Why a connection was closed against its peer's will; the values are a metric's labels.

    Attributes:
        TOO_MANY: max.connections.
        TOO_MANY_OF_IP: max.connections.per.ip.
        MALFORMED: it sent what has no meaning, or no answer.
        TLS_ON_PLAINTEXT: a TLS client on a listener without TLS.
        PLAINTEXT_ON_TLS: the other way round.
        HANDSHAKE: the TLS handshake failed; another metric has the reasons.
        NO_PRINCIPAL: no rule of ssl.principal.mapping.rules applies to its certificate.
        UNAUTHENTICATED: it did not show who it is in time, or sent too much before.
        SLOW_READER: it did not read its answers.
        STALLED: it did not finish a request.
        IDLE: connections.max.idle.ms.
        GONE: it went while it was not read, as there was no memory for what it sent.
        BUG: a bug in the broker; its traceback is in the log.
    """

    TOO_MANY = "too_many"
    TOO_MANY_OF_IP = "too_many_of_ip"
    MALFORMED = "malformed"
    TLS_ON_PLAINTEXT = "tls_on_plaintext"
    PLAINTEXT_ON_TLS = "plaintext_on_tls"
    HANDSHAKE = "handshake"
    NO_PRINCIPAL = "no_principal"
    UNAUTHENTICATED = "unauthenticated"
    SLOW_READER = "slow_reader"
    STALLED = "stalled"
    IDLE = "idle"
    GONE = "gone"
    BUG = "bug"


class CloseConnection(Exception):
    """The request deserves no answer but the end of the connection."""


class RefusalLog:
    """Writes a bounded number of lines.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since_s: dict[str, float] = {}
        self._lines: dict[str, int] = {}

    def write(self, event: str, *, kind: str, **values: object) -> None:
        """Log a line, or count it if there were many of its kind just now.

        `kind` is one of few: who connects has no influence on how many there are.
        """
        now_s = self._clock()
        if now_s - self._since_s.get(kind, float("-inf")) >= WINDOW_S:
            self._close_window(kind)
            self._since_s[kind], self._lines[kind] = now_s, 0
        self._lines[kind] += 1
        if self._lines[kind] <= LINES_PER_WINDOW:
            log.warning(event, kind=kind, **values)

    def flush(self) -> None:
        """Tell of what was left out in windows that are over; to be called about once a second."""
        now_s = self._clock()
        for kind in [one for one, since_s in self._since_s.items() if now_s - since_s >= WINDOW_S]:
            self._close_window(kind)
            del self._since_s[kind], self._lines[kind]

    def _close_window(self, kind: str) -> None:
        left_out = self._lines.get(kind, 0) - LINES_PER_WINDOW
        if left_out > 0:
            log.warning("refusals not logged one by one", kind=kind, count=left_out)
