"""Keys of tokens from a test's hand, and a clock that goes when a test says so."""

import asyncio
import json

from broker.security.oauth_key_ring import KeyRing
from broker.security.oauth_key_sources import KeysUnavailable
from tests.support.tokens import Issuer


class Clock:
    """Monotonic seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


class Source:
    """Keys from a test's hand.

    Attributes:
        text: None while nobody answers.
    """

    def __init__(self, issuer: Issuer) -> None:
        self.text: bytes | None = json.dumps(issuer.jwks()).encode()
        self.reads = 0

    async def changed(self) -> bool:
        return False

    async def read(self) -> bytes:
        self.reads += 1
        await asyncio.sleep(0)
        if self.text is None:
            raise KeysUnavailable("nobody answers")
        return self.text

    async def close(self) -> None:
        return


async def ring_of(source: Source, clock: Clock) -> KeyRing:
    ring = KeyRing(source, refresh_s=3600, clock=clock)
    await ring.load()
    return ring
