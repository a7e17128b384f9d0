"""Lookups in Postgres of topics that a client names and this broker does not know.

Some clients name topics that do not exist all the time. So that this is no flood of queries,
lookups are a while apart, and all who wait share one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

from storage.errors import MetadataUnavailable

LOOKUP_INTERVAL_S: Final = 0.1

LOOKUP: Final[ContextVar[str | None]] = ContextVar("LOOKUP", default=None)
"""What came of the lookup for the request at hand: None if there was none yet; empty if it had an
answer, and what is not known after it does not exist; else why there was no answer."""


class TopicLookups:
    """Looks up with `refresh`, which brings all topics up to date."""

    def __init__(self, refresh: Callable[[], Awaitable[None]]) -> None:
        self._refresh = refresh
        self._begun_s = float("-inf")

    async def look_up_once(self) -> None:
        """Look up, unless there was a lookup for the request at hand already.

        Raises:
            MetadataUnavailable: no answer, to that one either.
        """
        failure = LOOKUP.get()
        if failure is None:
            await self.look_up()
        elif failure:
            raise MetadataUnavailable(failure)

    async def look_up(self) -> None:
        """Look up, at least LOOKUP_INTERVAL_S after the last one began.

        Raises:
            MetadataUnavailable: no answer.
        """
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._begun_s + LOOKUP_INTERVAL_S - loop.time())
        self._begun_s = loop.time()
        try:
            await self._refresh()
        except MetadataUnavailable as unavailable:
            LOOKUP.set(str(unavailable) or "no answer")
            raise
        LOOKUP.set("")

    def created(self) -> None:
        """Let the next lookup be at once: who creates what was not found has paid for it."""
        self._begun_s = float("-inf")
