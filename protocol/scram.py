"""SCRAM credentials (RFC 5802), as KIP-554 lets tools set them and as they are stored.

A tool sends a salted password: Hi(password, salt, iterations). What is kept of it is derived once
more, so that who reads it can check a login but not make one.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Self

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384

_CLIENT_KEY: Final = b"Client Key"
_SERVER_KEY: Final = b"Server Key"


class ScramMechanism(IntEnum):
    """A mechanism, as the protocol numbers it (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """Its registered name, such as SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name of its hash for hmac and hashlib."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a server keeps of a user's password, for one mechanism.

    Attributes:
        salt: random bytes that the password was salted with.
        stored_key: H(HMAC(salted password, "Client Key")); checks a client's proof.
        server_key: HMAC(salted password, "Server Key"); proves that the server knows the user.
        iterations: of Hi().
    """

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def from_salted_password(
        cls, mechanism: ScramMechanism, *, salt: bytes, salted_password: bytes, iterations: int
    ) -> Self:
        """Derive the keys; the salted password is needed no more."""
        name = mechanism.hash_name
        client_key = hmac.digest(salted_password, _CLIENT_KEY, name)
        return cls(
            salt=salt,
            stored_key=hashlib.new(name, client_key).digest(),
            server_key=hmac.digest(salted_password, _SERVER_KEY, name),
            iterations=iterations,
        )

    def encode(self) -> str:
        """Return the credential as it is stored."""
        parts = {
            "iterations": str(self.iterations),
            "salt": _to_text(self.salt),
            "stored_key": _to_text(self.stored_key),
            "server_key": _to_text(self.server_key),
        }
        return ",".join(f"{name}={value}" for name, value in parts.items())

    @classmethod
    def decode(cls, text: str) -> Self:
        """Return a credential that was stored.

        Raises:
            ValueError: it is none; the message does not repeat it.
        """
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        try:
            return cls(
                salt=_from_text(parts["salt"]),
                stored_key=_from_text(parts["stored_key"]),
                server_key=_from_text(parts["server_key"]),
                iterations=int(parts["iterations"]),
            )
        except (KeyError, ValueError) as error:
            raise ValueError("a stored SCRAM credential cannot be read") from error


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_text(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
