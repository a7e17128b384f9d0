"""Looks into Postgres for topics that a client names and this broker does not know.

Some clients name topics that do not exist all the time. So that this is no flood of queries, looks
are a while apart, and all who wait share one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

LOOK_AGAIN_S: Final = 0.1

HAS_LOOKED: Final[ContextVar[bool]] = ContextVar("HAS_LOOKED", default=False)
"""Whether there was a look for the request at hand; what is not known after it does not exist."""


class TopicLooks:
    """Looks with `refresh`, which brings all topics up to date."""

    def __init__(self, refresh: Callable[[], Awaitable[None]]) -> None:
        self._refresh = refresh
        self._looked_s = float("-inf")

    async def look(self) -> None:
        """Look, at least LOOK_AGAIN_S after the last one began; raises what `refresh` raises."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._looked_s + LOOK_AGAIN_S - loop.time())
        self._looked_s = loop.time()
        await self._refresh()
        HAS_LOOKED.set(True)

    def created(self) -> None:
        """Let the next look be at once: who creates what was not found has paid for it."""
        self._looked_s = float("-inf")
