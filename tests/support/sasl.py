"""A raw client that logs in with SASL, step by step or all at once, and brokers to log in to."""

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.broker import BrokerProcess, start_broker
from tests.support.wire import WireClient, build, request_entities

ADMIN: Final = "admin"
PASSWORD: Final = "password-of-admin"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
ALTER_SCRAM: Final = 51


def handshake(mechanism: str, version: int = 1) -> Any:
    return request_entities(17, version).SaslHandshakeRequest(mechanism=mechanism)


def authenticate(message: bytes, version: int = 2) -> Any:
    return request_entities(36, version).SaslAuthenticateRequest(auth_bytes=message)


def api_versions(version: int = 3) -> Any:
    module = request_entities(18, version)
    names = {"client_software_name": "test", "client_software_version": "1"}
    return build(module, "ApiVersionsRequest", **names)


def metadata() -> Any:
    return request_entities(3, 1).MetadataRequest(topics=())


def plain(user: str, password: str) -> bytes:
    return f"\0{user}\0{password}".encode()


def password_request(user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> Any:
    """Return the request that creates a user, or gives it another password."""
    module, salt = request_entities(ALTER_SCRAM, 0), os.urandom(16)
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, 4096)
    upsertion = module.ScramCredentialUpsertion(
        name=user,
        mechanism=NUMBERS[mechanism],
        iterations=4096,
        salt=salt,
        salted_password=salted,
    )
    return module.AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,))


class Scram:
    """A client's side of SCRAM, to be held message by message."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._bare = f"n={user},r={secrets.token_hex(12)}".encode()

    def first(self) -> bytes:
        return b"n,," + self._bare

    def last(self, challenge: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, rounds)
        key = hmac.digest(salted, b"Client Key", self._hash)
        without_proof = f"c=biws,r={fields['r']}".encode()
        proven = b",".join((self._bare, challenge, without_proof))
        signature = hmac.digest(hashlib.new(self._hash, key).digest(), proven, self._hash)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return without_proof + b",p=" + base64.b64encode(proof)


class SaslClient(WireClient):
    """A connection that can log in."""

    async def begin(self, mechanism: str) -> None:
        """Shake hands."""
        answer = await self.ask(handshake(mechanism))
        assert answer.error_code == 0, answer

    async def log_in(
        self, mechanism: str = "PLAIN", user: str = ADMIN, password: str = PASSWORD
    ) -> Any:
        """Return the last answer of the whole exchange, good or bad."""
        await self.begin(mechanism)
        if mechanism == "PLAIN":
            return await self.ask(authenticate(plain(user, password)))
        scram = Scram(mechanism, user, password)
        challenge = await self.ask(authenticate(scram.first()))
        if challenge.error_code != 0:
            return challenge
        return await self.ask(authenticate(scram.last(challenge.auth_bytes)))

    async def set_password(self, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> Any:
        """Create a user, or give it another password."""
        (result,) = (await self.ask(password_request(user, password, mechanism))).results
        assert result.error_code == 0, result

    async def delete_user(self, user: str, mechanism: str = "SCRAM-SHA-256") -> None:
        module = request_entities(ALTER_SCRAM, 0)
        deletion = module.ScramCredentialDeletion(name=user, mechanism=NUMBERS[mechanism])
        request = module.AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=())
        (result,) = (await self.ask(request)).results
        assert result.error_code == 0, result


@contextmanager
def running_sasl_broker(
    data: Path,
    *arguments: str,
    protocol: str = "SASL_PLAINTEXT",
    mechanisms: tuple[str, ...] = MECHANISMS,
    configs: Mapping[str, str] | None = None,
    user: str = ADMIN,
    address: str = "127.0.0.1:0",
) -> Iterator[BrokerProcess]:
    """Run a broker with one listener, that of SASL, and one user, unless its name is empty."""
    secret = {
        "STREAMHOUSE_SECRETS__BOOTSTRAP_USER": user,
        "STREAMHOUSE_SECRETS__BOOTSTRAP_PASSWORD": PASSWORD,
    }
    settings = {"sasl.enabled.mechanisms": ",".join(mechanisms), **(configs or {})}
    broker = start_broker(
        data,
        *(f"--set={name}={value}" for name, value in settings.items()),
        *arguments,
        listen=f"{protocol}://{address}",
        environment={**os.environ, **(secret if user else {})},
    )
    try:
        yield broker
    finally:
        broker.stop()
