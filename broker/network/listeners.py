"""Where clients connect, and how they are to prove who they are there."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from broker.network.addresses import Address, parse_address


class SecurityProtocol(StrEnum):
    """How the clients of a listener speak to it, by Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Listener:
    """One address and the protocol that is spoken there."""

    protocol: SecurityProtocol
    address: Address

    def __str__(self) -> str:
        return f"{self.protocol}://{self.address}"

    @property
    def registered(self) -> str:
        """The text that brokers tell each other: HOST:PORT if the protocol is PLAINTEXT."""
        if self.protocol is SecurityProtocol.PLAINTEXT:
            return str(self.address)
        return str(self)


def parse_listener(text: str) -> Listener:
    """Return HOST:PORT (PLAINTEXT), or PROTOCOL://HOST:PORT.

    Raises:
        ValueError: it is none of these; the message says what it should be.
    """
    protocol, separator, _ = text.rpartition("://")
    address = parse_address(text, listener=True)
    return Listener(
        SecurityProtocol(protocol) if separator else SecurityProtocol.PLAINTEXT, address
    )


def listeners_config(listeners: Iterable[Listener]) -> str:
    """Return listeners as Kafka writes them in its configs."""
    return ",".join(str(listener) for listener in listeners)
