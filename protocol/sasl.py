"""What the conversations of all SASL mechanisms (RFC 4422) have in common.

They are pure: messages in, messages out; who holds one passes in nonces, credentials and the word
of whoever checked a password or a token. What a peer sends can only raise AuthenticationFailed.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from protocol.errors import ProtocolError

MAX_USER_BYTES: Final = 1024
"""Of a user's name, in UTF-8; as long as one that credentials can be set for."""


class FailureReason(StrEnum):
    """Why somebody was not let in, as it is logged; the client is told less.

    Attributes:
        CREDENTIALS: unknown user, wrong password, or a token that is not accepted.
        MALFORMED: a message that the mechanism does not have.
        AUTHORIZATION_ID: the client wants to be somebody else than it has proven to be.
        UNSUPPORTED: channel binding, tokens in place of passwords, or a mandatory extension.
        REPLAYED: a nonce that is not that of this exchange.
        CHANGED: another user or mechanism than before, while it authenticates itself again.
        REVOKED: the credentials were changed or deleted during the exchange.
    """

    CREDENTIALS = "credentials"
    MALFORMED = "malformed"
    AUTHORIZATION_ID = "authorization id"
    UNSUPPORTED = "unsupported"
    REPLAYED = "replayed"
    CHANGED = "changed"
    REVOKED = "revoked"


class AuthenticationFailed(ProtocolError):
    """A client has not proven who it is. Neither text nor attributes hold a secret.

    Attributes:
        reason: for the log.
        user: whom the client claims to be; empty as long as it has not said so.
        message: for the client; empty for the one that is the same for all who fail.
    """

    def __init__(self, reason: FailureReason, *, user: str = "", message: str = "") -> None:
        super().__init__(f"authentication failed: {reason}")
        self.reason = reason
        self.user = user
        self.message = message


class Gs2Header(NamedTuple):
    """What a message of the SCRAM and OAUTHBEARER mechanisms begins with (RFC 5801, 4).

    Attributes:
        size: its bytes, with the comma behind it.
        authorization_id: whom the client wants to act as; empty if it did not say.
    """

    size: int
    authorization_id: str


def read_gs2_header(message: bytes) -> Gs2Header:
    """Return the header of a client's first message.

    "n" and "y" are both without channel binding: y says that the client could, and that is no
    attempt to lower anything as this server never offers it.

    Raises:
        AuthenticationFailed: there is no such header, or it asks for channel binding.
    """
    if message.startswith(b"p="):
        raise AuthenticationFailed(FailureReason.UNSUPPORTED)
    parts = message.split(b",", 2)
    if len(parts) != 3 or parts[0] not in (b"n", b"y"):
        raise AuthenticationFailed(FailureReason.MALFORMED)
    authorization_id = ""
    if parts[1]:
        if not parts[1].startswith(b"a="):
            raise AuthenticationFailed(FailureReason.MALFORMED)
        authorization_id = read_name(parts[1][2:])
    return Gs2Header(len(parts[0]) + len(parts[1]) + 2, authorization_id)


def read_name(escaped: bytes) -> str:
    """Return a user's name in which =2C stands for a comma and =3D for an equals sign (RFC 5802).

    Raises:
        AuthenticationFailed: it is empty, too long or no text, or has another equals sign.
    """
    return check_name(decode_text(_unescape(escaped)))


def check_name(name: str) -> str:
    """Return a user's name; no credential could be set for one that is refused here.

    Raises:
        AuthenticationFailed: it is empty, too long, or has characters that no name has.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError:  # half of a surrogate pair, as JSON can have it
        size = 0
    if not 0 < size <= MAX_USER_BYTES or "\0" in name:
        raise AuthenticationFailed(FailureReason.MALFORMED)
    return name


def decode_text(data: bytes) -> str:
    """Return UTF-8 as text.

    Raises:
        AuthenticationFailed: it is none.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:  # whose text repeats the bytes
        raise AuthenticationFailed(FailureReason.MALFORMED) from None


def check_authorization_id(authorization_id: str, user: str) -> None:
    """Check that a client wants to act as nobody but the user that it has proven to be.

    Raises:
        AuthenticationFailed: it wants to be somebody else.
    """
    if authorization_id and authorization_id != user:
        raise AuthenticationFailed(
            FailureReason.AUTHORIZATION_ID,
            user=user,
            message="Authentication failed: the authorization id is not the name of the user.",
        )


def _unescape(escaped: bytes) -> bytes:
    first, *rest = escaped.split(b"=")
    parts = [first]
    for part in rest:
        if part.startswith(b"2C"):
            parts.append(b"," + part[2:])
        elif part.startswith(b"3D"):
            parts.append(b"=" + part[2:])
        else:
            raise AuthenticationFailed(FailureReason.MALFORMED)
    return b"".join(parts)
