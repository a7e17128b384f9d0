"""Addresses as people write them, and as brokers tell them to each other."""

from typing import Final, NamedTuple

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Address(NamedTuple):
    """Where something listens, or is reached."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str, *, listener: bool) -> Address:
    """Return HOST:PORT, [IPV6]:PORT or, for a listener, PROTOCOL://HOST:PORT.

    Raises:
        ValueError: it is none of these; the message says what it should be.
    """
    rest = text
    if "://" in text:
        protocol, rest = text.split("://", 1)
        if not listener or protocol not in _PROTOCOLS:
            known = f", or PROTOCOL://HOST:PORT with one of {', '.join(_PROTOCOLS)}"
            raise ValueError(f"{text!r}: use HOST:PORT{known if listener else ''}")
    host, separator, port = rest.rpartition(":")
    if not separator or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r}: use HOST:PORT, for example 127.0.0.1:9092")
    try:
        host.encode("idna")  # as the resolver does
    except UnicodeError:
        raise ValueError(f"{text!r}: use HOST:PORT, with a host that can be a name") from None
    return Address(host.strip("[]"), int(port))
