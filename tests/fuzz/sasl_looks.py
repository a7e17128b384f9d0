"""What a broker does with the messages of SASL mechanisms, before it knows who sends them."""

import base64
import binascii
import contextlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import jwt

from broker.security.oauth_key_ring import KeyRing
from broker.security.oauth_tokens import TokenCheck, TokenRules
from protocol.sasl_oauthbearer import read_oauthbearer
from protocol.sasl_plain import read_plain
from protocol.sasl_scram import ScramServer
from protocol.scram import ScramCredential, ScramMechanism
from tests.fuzz.payloads import CLIENT_NONCE, SERVER_NONCE
from tests.support.tokens import Issuer, SigningKey, rsa_key

NOW_MS: Final = 1_800_000_000_000


def sasl_looks(message: bytes) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each thing that a message could be: its name, and what reads it."""
    yield "PLAIN", lambda: read_plain(message)
    for mechanism in ScramMechanism:
        yield f"{mechanism.sasl_name} first", lambda one=mechanism: _first(one, message)  # type: ignore[misc]
        yield f"{mechanism.sasl_name} last", lambda one=mechanism: _last(one, message)  # type: ignore[misc]
    yield "OAUTHBEARER", lambda: _token(message)


def _first(mechanism: ScramMechanism, message: bytes) -> bytes:
    server = ScramServer(mechanism, nonce=SERVER_NONCE.decode())
    server.start(message)
    return server.challenge(_credential(mechanism))


def _last(mechanism: ScramMechanism, message: bytes) -> bytes:
    server = ScramServer(mechanism, nonce=SERVER_NONCE.decode())
    server.start(b"n,,n=alice,r=" + CLIENT_NONCE)
    server.challenge(_credential(mechanism))
    return server.finish(message)


@cache
def _credential(mechanism: ScramMechanism) -> ScramCredential:
    return ScramCredential.from_salted_password(
        mechanism, salt=b"salt", salted_password=b"p" * 32, iterations=4096
    )


def _token(message: bytes) -> object:
    """Check the token as it is, then what it says under a signature that is right."""
    login = read_oauthbearer(message)
    check, key = token_check()
    claims = login.token.partition(".")[2].partition(".")[0]
    try:
        payload = base64.urlsafe_b64decode(claims + "==")
    except (binascii.Error, ValueError):
        return _run(check, login.token)
    signed = jwt.api_jws.encode(payload, key.private, "RS256", headers={"kid": key.kid})
    return _run(check, signed)


def _run(check: TokenCheck, token: str) -> object:
    """Run a coroutine that has nothing to wait for: its keys are there."""
    checking = check.check(token)
    try:
        checking.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the check waits for something")


class _Keys:
    """Where the one key comes from."""

    def __init__(self, document: bytes) -> None:
        self._document = document

    async def read(self) -> bytes:
        return self._document

    async def changed(self) -> bool:
        return False

    async def close(self) -> None:
        """Close nothing."""


@cache
def token_check() -> tuple[TokenCheck, SigningKey]:
    """Return a check of tokens, and the key that it believes; made once."""
    key = rsa_key()
    issuer = Issuer(keys=[key])
    ring = KeyRing(_Keys(json.dumps(issuer.jwks()).encode()), refresh_s=1e9, clock=lambda: 0.0)
    with contextlib.suppress(StopIteration):  # how a coroutine ends that did not have to wait
        ring.load().send(None)
    rules = TokenRules(
        audiences=(), issuer="", subject_claim="sub", scope_claim="scope", skew_s=30.0
    )
    return TokenCheck(ring, rules, lambda: NOW_MS), key
