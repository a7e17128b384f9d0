"""A client's side of SASL for wire.py, from the properties that librdkafka has for it.

librdkafka logs in for most commands; the others speak the protocol themselves.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Generator, Mapping
from typing import Final

from streamctl.errors import Failure, UsageError
from streamctl.oauth_token import fetch_token

SCRAM: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS: Final = 4096
"""Whoever asks for less wants a proof that the password is quickly guessed from (RFC 7677, 4)."""

MAX_ITERATIONS: Final = 1_000_000
"""A server that asks for more wants to keep us busy; Kafka's tools take 16384 at the most."""

_COUNT: Final = re.compile(r"[0-9]{1,12}")

Conversation = Generator[bytes, bytes, None]
"""Yields messages for the server, and is sent its answers. Raises Failure: it does not go on."""


def conversation(properties: Mapping[str, str]) -> tuple[str, Conversation]:
    """Return the name of the mechanism that the properties ask for, and what is to be said.

    Raises:
        UsageError: something is missing, or the mechanism is not offered here.
    """
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI"
    if mechanism == "OAUTHBEARER":
        return mechanism, _oauthbearer(properties)
    if mechanism != "PLAIN" and mechanism not in SCRAM:
        raise UsageError(
            f"this command does not speak SASL {mechanism}",
            fix=f"set sasl.mechanism to {', '.join((*SCRAM, 'PLAIN'))} or OAUTHBEARER",
        )
    user, password = (properties.get(f"sasl.{name}", "") for name in ("username", "password"))
    if not user or not password:
        raise UsageError(
            f"SASL {mechanism} needs sasl.username and sasl.password",
            fix="put them into a file that only you can read, and name it with --config",
        )
    if mechanism == "PLAIN":
        return mechanism, _plain(user, password)
    return mechanism, _scram(SCRAM[mechanism], user, password)


def _plain(user: str, password: str) -> Conversation:
    yield b"\0".join((b"", user.encode(), password.encode()))


def _scram(hash_name: str, user: str, password: str) -> Conversation:
    """Speak SCRAM (RFC 5802); the server has to prove that it knows the password, too."""
    nonce = secrets.token_urlsafe(24)
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={escaped},r={nonce}"
    challenge = (yield f"n,,{first}".encode()).decode("utf-8", "replace")
    asked = _attributes(challenge)
    salt, iterations = _decoded(asked.get("s", "")), asked.get("i", "")
    whole_nonce = asked.get("r", "")
    if not whole_nonce.startswith(nonce) or not _COUNT.fullmatch(iterations) or not salt:
        raise Failure("the broker's SCRAM challenge makes no sense")
    if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise Failure(f"the broker asks for {iterations} iterations of SCRAM")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, int(iterations))
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    without_proof = f"c=biws,r={whole_nonce}"
    proven = ",".join((first, challenge, without_proof)).encode()
    stored_key = hashlib.new(hash_name, client_key).digest()
    signature = hmac.digest(stored_key, proven, hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    answer = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", hash_name)
    claimed = _decoded(_attributes(answer.decode("utf-8", "replace")).get("v", ""))
    if not hmac.compare_digest(claimed, hmac.digest(server_key, proven, hash_name)):
        raise Failure("whoever answers does not know this user: it is not the broker")


def _oauthbearer(properties: Mapping[str, str]) -> Conversation:
    """Speak OAUTHBEARER (RFC 7628)."""
    pairs = [f"auth=Bearer {fetch_token(properties)}"]
    pairs += [one.strip() for one in properties.get("sasl.oauthbearer.extensions", "").split(",")]
    message = "".join(f"{pair}\x01" for pair in pairs if pair)
    rejection = yield f"n,,\x01{message}\x01".encode()
    if rejection:
        yield b"\x01"


def _attributes(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
