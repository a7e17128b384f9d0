"""How far one connection is with proving who its client is, and what comes out of that."""

from dataclasses import dataclass
from typing import Protocol

from protocol.sasl import AuthenticationFailed, FailureReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a client has proven to be.

    Attributes:
        expires_ms: the wall clock's time at which the proof loses its worth; None if it does not.
    """

    user: str
    expires_ms: int | None = None


class Exchange(Protocol):
    """One conversation of a SASL mechanism."""

    async def take(self, message: bytes) -> tuple[bytes, Identity | None]:
        """Take a client's message; return the answer and, once the conversation ends, who it is.

        Raises:
            AuthenticationFailed: it is not who it claims to be, or makes no sense.
        """


class Login:
    """The state of a connection to a listener with SASL.

    Attributes:
        greeted: it has asked for ApiVersions, which it may do once before it authenticates itself.
        mechanism: of the exchange under way, or else of the last one.
        exchange: None before a handshake and after success.
        raw: messages come and go without a header (SaslHandshake v0).
        changed_mechanism: the exchange is for another mechanism than the client is in by.
        again_s: monotonic time at which it began to authenticate itself again.
    """

    __slots__ = ("again_s", "changed_mechanism", "exchange", "greeted", "mechanism", "raw")

    def __init__(self) -> None:
        self.greeted = False
        self.mechanism = ""
        self.exchange: Exchange | None = None
        self.raw = False
        self.changed_mechanism = False
        self.again_s = float("-inf")

    def begin(self, mechanism: str, exchange: Exchange, *, raw: bool) -> None:
        """Take note of a handshake."""
        self.changed_mechanism = bool(self.mechanism) and mechanism != self.mechanism
        self.exchange = exchange
        self.raw = raw
        if not self.changed_mechanism:
            self.mechanism = mechanism

    async def take(self, message: bytes, max_bytes: int) -> tuple[bytes, Identity | None]:
        """Go on with the exchange; see Exchange.

        Args:
            message: of the client.
            max_bytes: sasl.server.max.receive.size; a client that is in could send more.

        Raises:
            AuthenticationFailed: also for another mechanism, which Kafka tells no earlier.
        """
        assert self.exchange is not None, "a handshake comes first"
        if self.changed_mechanism:
            text = "Authentication failed: another mechanism than the session began with."
            raise AuthenticationFailed(FailureReason.CHANGED, message=text)
        if len(message) > max_bytes:
            raise AuthenticationFailed(FailureReason.MALFORMED)
        return await self.exchange.take(message)

    def end(self) -> None:
        """Take note of success."""
        self.exchange = None
        self.raw = False
