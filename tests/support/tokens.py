"""Tokens for tests: keys that sign JSON Web Tokens (RFC 7519), and what publishes those keys.

What a token says may be anything, wrong things above all: only `Issuer.token` makes good ones.
"""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.support.certificates import write_file

AUDIENCE: Final = "streamhouse"
ISSUER: Final = "https://issuer.example"
LIFE_S: Final = 300
_RSA_BITS: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key pair under the name by which tokens call it.

    Attributes:
        algorithm: RS256 or ES256.
    """

    kid: str
    algorithm: str
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey = field(repr=False)

    def public_jwk(self) -> dict[str, Any]:
        """Return the public key as a JWK (RFC 7517)."""
        if isinstance(self.private, rsa.RSAPrivateKey):
            jwk = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        else:
            jwk = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**jwk, "kid": self.kid, "alg": self.algorithm, "use": "sig"}

    def public_pem(self) -> bytes:
        public = self.private.public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(self, claims: Mapping[str, Any], **header: Any) -> str:
        """Sign any claims; `header` is added to the header, or replaces what stands there."""
        headers = {"kid": self.kid, **header}
        return jwt.encode(dict(claims), self.private, algorithm=self.algorithm, headers=headers)


def rsa_key(kid: str = "rsa-1") -> SigningKey:
    private = rsa.generate_private_key(public_exponent=65_537, key_size=_RSA_BITS)
    return SigningKey(kid=kid, algorithm="RS256", private=private)


def ec_key(kid: str = "ec-1") -> SigningKey:
    private = ec.generate_private_key(ec.SECP256R1())
    return SigningKey(kid=kid, algorithm="ES256", private=private)


@dataclass(slots=True, kw_only=True)
class Issuer:
    """Signs tokens with the first of its keys.

    Attributes:
        keys: all that its JWKS shows; may be changed, as when keys are rotated.
    """

    keys: list[SigningKey]
    issuer: str = ISSUER
    audience: str = AUDIENCE

    def jwks(self) -> dict[str, Any]:
        """Return the JWK Set (RFC 7517)."""
        return {"keys": [key.public_jwk() for key in self.keys]}

    def write_jwks(self, file: Path) -> Path:
        """Write the JWK Set, whole."""
        return write_file(file, json.dumps(self.jwks()).encode())

    def claims(self, subject: str, **changes: Any) -> dict[str, Any]:
        """Return good claims, but for `changes`: a claim set to None is left out."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "sub": subject,
            "iss": self.issuer,
            "aud": self.audience,
            "iat": now,
            "exp": now + LIFE_S,
            "scope": "kafka",
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, subject: str, *, life_s: float = LIFE_S, **changes: Any) -> str:
        """Return a good token, but for `changes` to its claims."""
        claims = {"exp": int(time.time() + life_s), **changes}
        return self.keys[0].sign(self.claims(subject, **claims))

    def refused_tokens(self, subject: str) -> dict[str, str]:
        """Return a token for each thing that can be wrong with one, by a name for the thing."""
        key, now = self.keys[0], int(time.time())
        other = ec_key(key.kid)  # the right name, another key
        good = self.claims(subject)
        return {
            "expired": self.token(subject, iat=now - 1000, exp=now - 500),
            "no expiry": self.token(subject, exp=None),
            "not yet valid": self.token(subject, nbf=now + 500),
            "wrong audience": self.token(subject, aud="another-service"),
            "no audience": self.token(subject, aud=None),
            "wrong issuer": self.token(subject, iss="https://elsewhere.example"),
            "no issuer": self.token(subject, iss=None),
            "no subject": self.token(subject, sub=None),
            "empty subject": self.token(""),
            "algorithm none": unsigned_token(good, kid=key.kid),
            "algorithm None": unsigned_token(good, kid=key.kid, alg="None"),
            "public key as a secret": confused_token(key, good),
            "unknown kid": key.sign(good, kid="nobody"),
            "another key": other.sign(good),
            "changed claims": with_claims(key.sign(good), {**good, "sub": "admin"}),
            "key in the header": other.sign(good, jwk=other.public_jwk()),
        }


def unsigned_token(claims: Mapping[str, Any], *, alg: str = "none", **header: Any) -> str:
    """Return a token that nobody signed (RFC 7519, 6.1)."""
    return f"{_encoded({'alg': alg, 'typ': 'JWT', **header})}.{_encoded(claims)}."


def confused_token(key: SigningKey, claims: Mapping[str, Any]) -> str:
    """Return a token signed by HMAC with the public key, which everybody knows, as its secret."""
    signed = f"{_encoded({'alg': 'HS256', 'typ': 'JWT', 'kid': key.kid})}.{_encoded(claims)}"
    signature = hmac.digest(key.public_pem(), signed.encode(), hashlib.sha256)
    return f"{signed}.{_base64(signature)}"


def with_claims(token: str, claims: Mapping[str, Any]) -> str:
    """Return a token with other claims under its old signature."""
    header, _, signature = token.split(".")
    return f"{header}.{_encoded(claims)}.{signature}"


def _encoded(value: Mapping[str, Any]) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
