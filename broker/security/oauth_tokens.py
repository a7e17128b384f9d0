"""JSON Web Tokens (RFC 7519; best practices of RFC 8725): whose they are and when they expire."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from jwt.types import Options

from broker.security.login import Identity
from broker.security.oauth_key_ring import KeyRing
from broker.security.oauth_keys import ALGORITHMS, VerificationKey
from protocol.sasl import AuthenticationFailed, FailureReason, check_name

MAX_KID: Final = 256
MAX_HEADER: Final = 8192
"""Characters: it is read once for each key that is tried, before anything is known to be true."""

_CHECKED_HERE: Final[Options] = {
    "verify_exp": False,  # against the broker's own clock, below
    "verify_nbf": False,
    "verify_iat": False,
    "verify_sub": False,  # the claim may have another name
}


class _Unacceptable(Exception):
    """A token that proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a token must say, by the configs sasl.oauthbearer.….

    Attributes:
        audiences: one of them must be among the token's; empty for whichever.
        issuer: empty for whoever.
        subject_claim: the claim that has the user's name.
        scope_claim: the claim that has what the token is for: a text, or several.
        skew_s: by how much clocks may differ.
    """

    audiences: tuple[str, ...]
    issuer: str
    subject_claim: str
    scope_claim: str
    skew_s: float


class TokenCheck:
    """Checks tokens.

    Args:
        now_ms: the wall clock.
    """

    def __init__(self, keys: KeyRing, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._now_ms = now_ms

    async def check(self, token: str) -> Identity:
        """Return whose token it is.

        Raises:
            AuthenticationFailed: it is not signed by one of the keys, not for here, or not for now.
        """
        try:
            kid, algorithm = _read_header(token)
            keys = await self._keys.find(kid, algorithm)
            claims = self._verified(token, keys, algorithm)
            expires_s = self._check_times(claims)
            self._check_scope(claims)
            return Identity(user=self._user(claims), expires_ms=int(expires_s * 1000))
        except _Unacceptable:
            raise AuthenticationFailed(FailureReason.CREDENTIALS) from None

    def _verified(
        self, token: str, keys: list[VerificationKey], algorithm: str
    ) -> Mapping[str, Any]:
        """Return what a token says that one of the keys has signed."""
        rules = self._rules
        for key in keys:
            try:
                claims: Mapping[str, Any] = jwt.decode(
                    token,
                    key.key,
                    algorithms=[algorithm],
                    audience=rules.audiences or None,
                    issuer=rules.issuer or None,
                    options={**_CHECKED_HERE, "verify_aud": bool(rules.audiences)},
                )
            except jwt.InvalidSignatureError:
                continue
            except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
                break
            return claims
        raise _Unacceptable

    def _user(self, claims: Mapping[str, Any]) -> str:
        user = claims.get(self._rules.subject_claim)
        if not isinstance(user, str):
            raise _Unacceptable
        return check_name(user)

    def _check_times(self, claims: Mapping[str, Any]) -> float:
        """Return when the token expires, in seconds since the epoch."""
        now_s, skew_s = self._now_ms() / 1000, self._rules.skew_s
        if "exp" not in claims:
            raise _Unacceptable
        times = {name: _time(claims[name]) for name in ("exp", "nbf", "iat") if name in claims}
        expires_s = times.pop("exp")
        if expires_s + skew_s <= now_s or any(one - skew_s > now_s for one in times.values()):
            raise _Unacceptable
        return expires_s

    def _check_scope(self, claims: Mapping[str, Any]) -> None:
        """Check that a scope is one; nothing follows from what it says."""
        scope = claims.get(self._rules.scope_claim, "")
        parts = scope if isinstance(scope, list) else [scope]
        if not all(isinstance(one, str) for one in parts):
            raise _Unacceptable


def _read_header(token: str) -> tuple[str, str]:
    """Return the name of the key and the algorithm; all else that a header can say is ignored."""
    if len(token.partition(".")[0]) > MAX_HEADER:
        raise _Unacceptable
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise _Unacceptable from None
    kid, algorithm = header.get("kid", ""), header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise _Unacceptable
    if not isinstance(kid, str) or len(kid) > MAX_KID:
        raise _Unacceptable
    if "crit" in header:  # extensions without which it must not be accepted; none is known here
        raise _Unacceptable
    return kid, algorithm


def _time(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unacceptable
    try:
        seconds = float(value)
    except OverflowError:
        raise _Unacceptable from None
    if not math.isfinite(seconds * 1000) or seconds < 0:  # it becomes milliseconds
        raise _Unacceptable
    return seconds
