"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), without I/O.

    client: n,,n=user,r=<nonce>
    server: r=<nonce><server's>,s=<salt>,i=<iterations>
    client: c=biws,r=<nonce><server's>,p=<proof>
    server: v=<signature>

The server never sees a password and keeps none (protocol/scram.py). The nonce of the last message
is compared with the one that was given out: without that an exchange that somebody listened to
could be repeated (CVE-2024-56128). So is what binds the first message to the last one.
"""

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

from protocol.sasl import (
    AuthenticationFailed,
    FailureReason,
    check_authorization_id,
    read_gs2_header,
    read_name,
)
from protocol.scram import ScramCredential, ScramMechanism

MAX_MESSAGE_BYTES: Final = 8192
MAX_EXTENSIONS: Final = 16
_NONCE: Final = re.compile(rb"[\x21-\x2b\x2d-\x7e]+")
_EXTENSION: Final = re.compile(rb"[A-Za-z]+=[^,]+")
_TOKEN_LOGIN: Final = b"tokenauth="


class ScramServer:
    """One exchange: `start`, `challenge`, `finish`.

    Args:
        nonce: printable characters without a comma, random, never used before.

    Attributes:
        user: whom the client claims to be, once `start` has returned.
    """

    def __init__(self, mechanism: ScramMechanism, *, nonce: str) -> None:
        assert _NONCE.fullmatch(nonce.encode()), "a nonce of printable characters"
        self._hash = mechanism.hash_name
        self._server_nonce = nonce.encode()
        self._gs2_header = self._first = self._nonce = self._challenge = b""
        self._credential: ScramCredential | None = None
        self.user = ""

    def start(self, message: bytes) -> str:
        """Take the client's first message; return the user whose credential `challenge` needs.

        Raises:
            AuthenticationFailed: it is none, or asks for what is not offered.
        """
        if len(message) > MAX_MESSAGE_BYTES or b"\0" in message:
            raise AuthenticationFailed(FailureReason.MALFORMED)
        header = read_gs2_header(message)
        self._gs2_header, self._first = message[: header.size], message[header.size :]
        if self._first.startswith(b"m="):  # an extension without which the client does not go on
            raise AuthenticationFailed(FailureReason.UNSUPPORTED)
        name, nonce = self._fields(self._first, b"n=", b"r=")
        self.user = read_name(name)
        if not _NONCE.fullmatch(nonce):
            raise self._failed(FailureReason.MALFORMED)
        check_authorization_id(header.authorization_id, self.user)
        self._nonce = nonce + self._server_nonce
        return self.user

    def challenge(self, credential: ScramCredential) -> bytes:
        """Return the answer to the first message.

        Args:
            credential: the user's; for somebody unknown one that nobody has a password for, so
                that the exchange does not tell whether there is such a user.
        """
        self._credential = credential
        salt = base64.b64encode(credential.salt)
        self._challenge = b"r=%b,s=%b,i=%d" % (self._nonce, salt, credential.iterations)
        return self._challenge

    def finish(self, message: bytes) -> bytes:
        """Take the client's last message; return the answer that proves who the server is.

        Raises:
            AuthenticationFailed: the client does not know the password.
        """
        assert self._credential is not None, "challenge comes first"
        if len(message) > MAX_MESSAGE_BYTES or b"\0" in message:
            raise self._failed(FailureReason.MALFORMED)
        without_proof, separator, encoded_proof = message.rpartition(b",p=")
        if not separator:
            raise self._failed(FailureReason.MALFORMED)
        binding, nonce = self._fields(without_proof, b"c=", b"r=")
        if binding != base64.b64encode(self._gs2_header):
            raise self._failed(FailureReason.MALFORMED)
        if not hmac.compare_digest(nonce, self._nonce):
            raise self._failed(FailureReason.REPLAYED)
        proven = b",".join((self._first, self._challenge, without_proof))
        self._check_proof(self._credential, _decoded(encoded_proof), proven)
        signature = hmac.digest(self._credential.server_key, proven, self._hash)
        return b"v=" + base64.b64encode(signature)

    def _check_proof(self, credential: ScramCredential, proof: bytes | None, proven: bytes) -> None:
        signature = hmac.digest(credential.stored_key, proven, self._hash)
        if proof is None or len(proof) != len(signature):
            raise self._failed(FailureReason.MALFORMED)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise self._failed(FailureReason.CREDENTIALS)

    def _fields(self, text: bytes, first: bytes, second: bytes) -> tuple[bytes, bytes]:
        """Return the values of the two fields that a message begins with; check what follows them.

        Extensions are ignored. Kafka's tokenauth is not: it stands for another kind of login.
        """
        fields = text.split(b",")
        if not 2 <= len(fields) <= 2 + MAX_EXTENSIONS:
            raise self._failed(FailureReason.MALFORMED)
        if not (fields[0].startswith(first) and fields[1].startswith(second)):
            raise self._failed(FailureReason.MALFORMED)
        for extension in fields[2:]:
            if extension.lower().startswith(_TOKEN_LOGIN):
                raise self._failed(FailureReason.UNSUPPORTED)
            if not _EXTENSION.fullmatch(extension):
                raise self._failed(FailureReason.MALFORMED)
        return fields[0][len(first) :], fields[1][len(second) :]

    def _failed(self, reason: FailureReason) -> AuthenticationFailed:
        return AuthenticationFailed(reason, user=self.user)


def _decoded(text: bytes) -> bytes | None:
    """Return what base64 stands for; None if it is none, or could be written in another way."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data) == text else None
