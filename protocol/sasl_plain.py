"""The PLAIN mechanism (RFC 4616): one message with user and password."""

from dataclasses import dataclass, field
from typing import Final

from protocol.sasl import AuthenticationFailed, FailureReason, check_name, decode_text

MAX_PASSWORD_BYTES: Final = 4096
"""Checking a password takes time that grows with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLogin:
    """What a client claims.

    Attributes:
        authorization_id: whom it wants to act as; empty if it did not say.
        password: in UTF-8, as it is.
    """

    authorization_id: str
    user: str
    password: bytes = field(repr=False)


def read_plain(message: bytes) -> PlainLogin:
    """Return what a client's message says.

    Raises:
        AuthenticationFailed: it is not made of the three parts, or one that is needed is empty.
    """
    parts = message.split(b"\0", 3)
    if len(parts) != 3:
        raise AuthenticationFailed(FailureReason.MALFORMED)
    authorization_id, user, password = parts
    if not password or len(password) > MAX_PASSWORD_BYTES:
        raise AuthenticationFailed(FailureReason.MALFORMED)
    decode_text(password)
    return PlainLogin(
        authorization_id=decode_text(authorization_id),
        user=check_name(decode_text(user)),
        password=password,
    )
