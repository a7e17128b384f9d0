"""Places for those who read from the object store, some at a time; no queue before a dead store.

A read has its deadline (storage/config.py, S3Config) from when it has a place, so behind a store
that does not answer others would wait for one round of deadlines after the other. Who waits while a
read ends that long had no answer, in whose time no other GET had one, has the same answer. Who
comes later asks again. While the store answers anybody, however slowly, all wait for their turn.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from storage.errors import ObjectStoreUnavailable
from storage.reading.cold_patience import now_s

LEAST_OUTAGE_S: Final = 3.0
"""What fails sooner tells of itself: it may not be read, or not by this process."""


class StoreAnswers:
    """Attributes: count is of GETs that had bytes, or were told why there are none."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class ColdPlaces:
    """First come, first served."""

    def __init__(self, most: int, answers: StoreAnswers) -> None:
        self._places = asyncio.Semaphore(most)
        self._answers = answers
        self._outages = 0  # reads that had no answer, while nobody had one

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
            count, began_s = self._answers.count, now_s()
            try:
                yield
            except ObjectStoreUnavailable:
                is_long = now_s() - began_s >= LEAST_OUTAGE_S
                self._outages += is_long and self._answers.count == count
                raise
