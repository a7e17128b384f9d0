"""The messages of OAUTHBEARER (RFC 7628): a token, and what else a client has to say (KIP-342).

client: n,,^Aauth=Bearer <token>^A<name>=<value>^A^A
server: nothing if the token is accepted; else {"status":"invalid_token"}
client: ^A, after which the server says that it failed
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from protocol.sasl import (
    AuthenticationFailed,
    FailureReason,
    decode_text,
    read_gs2_header,
)

REJECTION: Final = b'{"status":"invalid_token"}'
"""The challenge for a token that is not accepted: how it is wrong is nobody's business."""

CONFIRMATION: Final = b"\x01"
"""What a client sends when it has read the rejection."""

MAX_EXTENSIONS: Final = 32
_SEPARATOR: Final = b"\x01"
_AUTH: Final = "auth"
_NAME: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9\-._~+/]+=*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearerLogin:
    """What a client claims.

    Attributes:
        authorization_id: whom it wants to act as; empty if it did not say.
        token: as it came, not checked.
        extensions: by name; not proven by anything.
    """

    authorization_id: str
    token: str = field(repr=False)
    extensions: Mapping[str, str]


def read_oauthbearer(message: bytes) -> OAuthBearerLogin:
    """Return what a client's first message says.

    Raises:
        AuthenticationFailed: it is none, or has no bearer token.
    """
    header = read_gs2_header(message)
    body = message[header.size :]
    if not body.startswith(_SEPARATOR) or not body.endswith(_SEPARATOR * 2):
        raise AuthenticationFailed(FailureReason.MALFORMED)
    pairs = body[1:-2].split(_SEPARATOR, MAX_EXTENSIONS + 1)
    if len(pairs) > MAX_EXTENSIONS:
        raise AuthenticationFailed(FailureReason.MALFORMED)
    values: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = decode_text(pair).partition("=")
        if not separator or name in values or not _is_pair(name, value):
            raise AuthenticationFailed(FailureReason.MALFORMED)
        values[name] = value
    bearer = _BEARER.fullmatch(values.pop(_AUTH, ""))
    if bearer is None:
        raise AuthenticationFailed(FailureReason.MALFORMED)
    return OAuthBearerLogin(
        authorization_id=header.authorization_id, token=bearer[1], extensions=values
    )


def _is_pair(name: str, value: str) -> bool:
    return bool(_NAME.fullmatch(name) and _VALUE.fullmatch(value))
