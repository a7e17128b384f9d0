"""What the peer of one connection has to do in time, on the clock of the event loop."""

from typing import Final

from broker.network.refused_connections import Refused

SLOW_READER_S: Final = 60
LOGIN_S: Final = 10
CLOSE_S: Final = 10


class Deadlines:
    """Since when the peer owes what; 0 if it does not.

    Attributes:
        blocked_since_s: the socket has had no room.
        closing_since_s: it was to be closed, once the peer has read the rest.
        login_since_s: the peer may log in.
    """

    __slots__ = ("blocked_since_s", "closing_since_s", "login_since_s")

    def __init__(self, now_s: float) -> None:
        self.blocked_since_s = 0.0
        self.closing_since_s = 0.0
        self.login_since_s = now_s

    def missed(self, now_s: float, *, trusted: bool) -> tuple[Refused, str] | None:
        """Return what the peer should have done by now."""
        if self.blocked_since_s and now_s - self.blocked_since_s > SLOW_READER_S:
            return Refused.SLOW_READER, f"did not read its answers for {SLOW_READER_S} s"
        if self.closing_since_s and now_s - self.closing_since_s > CLOSE_S:
            return Refused.SLOW_READER, f"did not read its last answers for {CLOSE_S} s"
        if not trusted and not self.closing_since_s and now_s - self.login_since_s > LOGIN_S:
            return Refused.UNAUTHENTICATED, f"did not authenticate within {LOGIN_S} s"
        return None
