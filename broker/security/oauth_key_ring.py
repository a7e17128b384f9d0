"""The keys that tokens are checked with just now.

They are read at the start, again every sasl.oauthbearer.jwks.endpoint.refresh.ms, when the file has
changed, and when a token names a key that nobody has heard of: that one may be new. Who makes up
names makes the broker ask once in SEARCH_S at the most. While there is no answer the old keys stay,
and it is asked for again every RETRY_S: one of them may have been withdrawn.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from broker.security.oauth_key_sources import KeySource, KeysUnavailable
from broker.security.oauth_keys import UnusableKeys, VerificationKey, read_keys

SEARCH_S: Final = 5.0
RETRY_S: Final = 60.0
LOOK_S: Final = 1.0

log = structlog.get_logger()


class KeyRing:
    """Finds keys by name.

    Args:
        refresh_s: how old keys may become.
        clock: monotonic seconds.
    """

    def __init__(self, source: KeySource, *, refresh_s: float, clock: Callable[[], float]) -> None:
        self._source = source
        self._refresh_s = refresh_s
        self._clock = clock
        self._keys: tuple[VerificationKey, ...] = ()
        self._loaded_s = self._asked_s = float("-inf")
        self._loading: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read the keys.

        Raises:
            KeysUnavailable, UnusableKeys: the old ones stay.
        """
        self._asked_s = self._clock()
        self._keys = read_keys(await self._source.read())
        self._loaded_s = self._clock()

    async def find(self, kid: str, algorithm: str) -> list[VerificationKey]:
        """Return the keys that a token may be signed with.

        Args:
            kid: as the token names its key; empty if it does not, so that any may be it.
            algorithm: of the signature.
        """
        found = self._matching(kid, algorithm)
        may_ask = self._loading is not None or self._clock() - self._asked_s >= SEARCH_S
        if found or not may_ask:
            return found
        await self._reload()
        return self._matching(kid, algorithm)

    async def run(self) -> None:
        """Keep the keys fresh until cancelled."""
        while True:
            await asyncio.sleep(min(LOOK_S, self._refresh_s))
            if self._is_due() or await self._source.changed():
                await self._reload()

    async def close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
        await self._source.close()

    def _is_due(self) -> bool:
        now_s = self._clock()
        pause_s = min(RETRY_S, self._refresh_s) if self._keys else SEARCH_S
        is_old = not self._keys or now_s - self._loaded_s >= self._refresh_s
        return is_old and now_s - self._asked_s >= pause_s

    async def _reload(self) -> None:
        """Read the keys, once for all who ask meanwhile."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._try_load())
            self._loading.add_done_callback(self._loaded)
        await asyncio.shield(self._loading)

    async def _try_load(self) -> None:
        try:
            await self.load()
        except (KeysUnavailable, UnusableKeys) as error:
            log.warning("no new keys for tokens", reason=str(error), kept=len(self._keys))

    def _loaded(self, _: "asyncio.Task[None]") -> None:
        self._loading = None

    def _matching(self, kid: str, algorithm: str) -> list[VerificationKey]:
        return [
            one for one in self._keys if algorithm in one.algorithms and (not kid or one.kid == kid)
        ]
