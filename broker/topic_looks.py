"""Looks into Postgres for topics that a client names and this broker does not know.

Some clients name topics that do not exist all the time. So that this is no flood of queries, looks
are a while apart, and all who wait share one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

from storage.errors import MetadataUnavailable

LOOK_AGAIN_S: Final = 0.1

LOOK: Final[ContextVar[str | None]] = ContextVar("LOOK", default=None)
"""What came of the look for the request at hand: None if there was none yet; empty if it had an
answer, and what is not known after it does not exist; else why there was no answer."""


class TopicLooks:
    """Looks with `refresh`, which brings all topics up to date."""

    def __init__(self, refresh: Callable[[], Awaitable[None]]) -> None:
        self._refresh = refresh
        self._looked_s = float("-inf")

    async def look_once(self) -> None:
        """Look, unless there was a look for the request at hand already.

        Raises:
            MetadataUnavailable: no answer, to that one either.
        """
        failure = LOOK.get()
        if failure is None:
            await self.look()
        elif failure:
            raise MetadataUnavailable(failure)

    async def look(self) -> None:
        """Look, at least LOOK_AGAIN_S after the last one began.

        Raises:
            MetadataUnavailable: no answer.
        """
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._looked_s + LOOK_AGAIN_S - loop.time())
        self._looked_s = loop.time()
        try:
            await self._refresh()
        except MetadataUnavailable as unavailable:
            LOOK.set(str(unavailable) or "no answer")
            raise
        LOOK.set("")

    def created(self) -> None:
        """Let the next look be at once: who creates what was not found has paid for it."""
        self._looked_s = float("-inf")
