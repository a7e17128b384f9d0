"""Public keys that tokens are signed with: a JWK set (RFC 7517) as text, and as keys.

Only asymmetric keys count: with a symmetric one whoever can check tokens could make them, too. A
key decides which algorithms it is for, not the token, so a public key can never be taken for a
password (CVE-2015-9235 and its many successors).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import InvalidKeyError

RSA_ALGORITHMS: Final = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))
CURVE_ALGORITHMS: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
EDWARDS_ALGORITHM: Final = "EdDSA"
ALGORITHMS: Final = RSA_ALGORITHMS | {*CURVE_ALGORITHMS.values(), EDWARDS_ALGORITHM}
"""All that a token may be signed with."""

MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192
MAX_KEYS: Final = 64

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey


class UnusableKeys(Exception):
    """A JWK set that no token can be checked with; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationKey:
    """A public key.

    Attributes:
        kid: its name; empty if it has none.
        algorithms: that it may be used with.
    """

    kid: str
    algorithms: frozenset[str]
    key: PublicKey


def read_keys(text: bytes) -> tuple[VerificationKey, ...]:
    """Return the keys of a JWK set that can be used; others, of whatever kind, are passed over.

    Raises:
        UnusableKeys: it is no JWK set, or none of its keys can be used.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise UnusableKeys("it is not JSON") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise UnusableKeys("it is not a JWK set: it has no list of keys")
    if len(entries) > MAX_KEYS:
        raise UnusableKeys(f"it has {len(entries)} keys; at most {MAX_KEYS}")
    keys = tuple(key for key in map(_read_key, entries) if key is not None)
    if not keys:
        raise UnusableKeys("none of its keys is a public one for signatures")
    return keys


def _read_key(entry: object) -> VerificationKey | None:
    if not isinstance(entry, dict) or not _is_for_signatures(entry):
        return None
    read = _READERS.get(str(entry.get("kty")))
    try:
        found = read(entry) if read else None
    except (InvalidKeyError, UnsupportedAlgorithm, ValueError, TypeError):
        return None  # of a curve or a size that is not known here, or that OpenSSL is told to shun
    if found is None:
        return None
    key, algorithms = found
    named = entry.get("alg")
    if named is not None:
        algorithms &= {str(named)}
    kid = entry.get("kid", "")
    if not algorithms or not isinstance(kid, str):
        return None
    return VerificationKey(kid=kid, algorithms=algorithms, key=key)


def _is_for_signatures(entry: Mapping[str, Any]) -> bool:
    operations = entry.get("key_ops")
    allowed = operations is None or (isinstance(operations, list) and "verify" in operations)
    return allowed and entry.get("use", "sig") == "sig"


def _public(entry: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the public part of a key: a private one has no business here, and is not kept."""
    return {name: entry[name] for name in ("kty", *names) if name in entry}


def _read_rsa(entry: Mapping[str, Any]) -> tuple[PublicKey, frozenset[str]] | None:
    key = RSAAlgorithm.from_jwk(_public(entry, "n", "e"))
    if isinstance(key, RSAPublicKey) and MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
        return key, RSA_ALGORITHMS
    return None


def _read_curve(entry: Mapping[str, Any]) -> tuple[PublicKey, frozenset[str]] | None:
    key = ECAlgorithm.from_jwk(_public(entry, "crv", "x", "y"))
    algorithm = CURVE_ALGORITHMS.get(key.curve.name)
    if isinstance(key, EllipticCurvePublicKey) and algorithm:
        return key, frozenset((algorithm,))
    return None


def _read_edwards(entry: Mapping[str, Any]) -> tuple[PublicKey, frozenset[str]] | None:
    key = OKPAlgorithm.from_jwk(_public(entry, "crv", "x"))
    if isinstance(key, Ed25519PublicKey | Ed448PublicKey):
        return key, frozenset((EDWARDS_ALGORITHM,))
    return None


_READERS: Final[
    Mapping[str, Callable[[Mapping[str, Any]], tuple[PublicKey, frozenset[str]] | None]]
] = {"RSA": _read_rsa, "EC": _read_curve, "OKP": _read_edwards}
