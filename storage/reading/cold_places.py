"""Places for those who read from the object store, some at a time; no queue before a dead store.

A read has its deadline (storage/config.py, S3Config) from when it has a place, so behind a store
that does not answer others would wait for one round of deadlines after the other. Who waits while a
read ends without an answer, in whose time nobody else had one, has the same answer. Who comes later
asks again. While the store answers anybody, however slowly, all wait for their turn.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from storage.errors import ObjectStoreUnavailable


class ColdPlaces:
    """First come, first served."""

    def __init__(self, most: int) -> None:
        self._places = asyncio.Semaphore(most)
        self._answered = 0
        self._outages = 0  # reads that had no answer, while no other had one

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, and hold it for the length of the block.

        Raises:
            ObjectStoreUnavailable: those who were before had no answer.
        """
        outages = self._outages
        async with self._places:
            if self._outages > outages:
                raise ObjectStoreUnavailable("no answer to those that were asked for before")
            answered = self._answered
            try:
                yield
            except ObjectStoreUnavailable:
                self._outages += self._answered == answered
                raise
            self._answered += 1
