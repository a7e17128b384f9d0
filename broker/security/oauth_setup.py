"""Makes what checks the tokens of OAUTHBEARER."""

from collections.abc import Callable

import structlog

from broker.security.login import Identity
from broker.security.oauth_key_ring import KeyRing
from broker.security.oauth_key_sources import KeysUnavailable, open_key_source
from broker.security.oauth_keys import UnusableKeys
from broker.security.oauth_tokens import TokenCheck, TokenRules
from broker.security.security_config import SecurityConfig

log = structlog.get_logger()


class Tokens:
    """Checks tokens with keys that it keeps fresh."""

    def __init__(
        self, config: SecurityConfig, *, clock: Callable[[], float], now_ms: Callable[[], int]
    ) -> None:
        source = open_key_source(config.jwks_url)
        self._keys = KeyRing(source, refresh_s=config.jwks_refresh_ms / 1000, clock=clock)
        rules = TokenRules(
            audiences=config.expected_audience,
            issuer=config.expected_issuer,
            subject_claim=config.subject_claim,
            scope_claim=config.scope_claim,
            skew_s=config.clock_skew_seconds,
        )
        self._check = TokenCheck(self._keys, rules, now_ms)

    async def check(self, token: str) -> Identity:
        """Return whose token it is; see TokenCheck."""
        return await self._check.check(token)

    async def start(self) -> None:
        """Read the keys; a broker whose key endpoint is down starts all the same, and asks on."""
        try:
            await self._keys.load()
        except (KeysUnavailable, UnusableKeys) as error:
            log.warning("no keys for tokens yet; they are asked for again", reason=str(error))

    async def run(self) -> None:
        """Keep the keys fresh until cancelled."""
        await self._keys.run()

    async def close(self) -> None:
        await self._keys.close()
