"""The one log directory that a broker shows to tools: the object store, with sizes by the index.

There is nothing but the index to ask, and its rows are many: at 10,000 partitions with 5 million
rows it takes two seconds. Tools that look at everything, as most do (UIs, exporters), so share an
answer, and one that took longer than QUICK_S is kept for KEEP_TIMES as long as it took: then they
use a tenth of one connection at most. A small cluster answers with what is there now.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from broker.shared_load import shared_task
from protocol.ids import Partition
from storage.errors import MetadataUnavailable
from storage.metadata.segments import SegmentStore

QUICK_S: Final = 0.5
KEEP_TIMES: Final = 10

log = structlog.get_logger()

Sizes = Mapping[Partition, int]
"""Bytes of batches; partitions that do not exist, or have come since, are left out."""


class LogDir:
    """The object store as a log directory.

    Args:
        store: where the index is.
        name: of the directory.
        clock: seconds, monotonic.

    Attributes:
        name: the store's URL without options.
    """

    def __init__(self, store: SegmentStore, name: str, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._sizes: Sizes | None = None
        self._generation = -1
        self._kept_until_s = float("-inf")
        self._measuring: asyncio.Task[Sizes] | None = None
        self._turn = asyncio.Lock()  # whoever asks for whatever takes one connection together
        self.name = name

    async def sizes(self, partitions: Sequence[Partition]) -> Sizes:
        """Return how large some partitions are now.

        Raises:
            MetadataUnavailable: no answer.
        """
        if not partitions:
            return {}
        async with self._turn:
            return await self._store.partition_sizes(partitions)

    async def all_sizes(self, generation: int, partitions: Callable[[], list[Partition]]) -> Sizes:
        """Return how large all partitions of this broker are, or were a moment ago.

        Args:
            generation: of the set of live brokers.
            partitions: those that this broker has in that generation.

        Raises:
            MetadataUnavailable: no answer, and nothing is known from before.
        """
        if generation != self._generation:
            self._sizes, self._measuring, self._generation = None, None, generation
        if self._sizes is not None and self._clock() < self._kept_until_s:
            return self._sizes
        if self._measuring is None or self._measuring.done():
            self._measuring = shared_task(self._measure(generation, partitions()))
        try:
            return await asyncio.shield(self._measuring)
        except MetadataUnavailable as error:
            if self._sizes is None:
                raise
            log.warning("no news of sizes", reason=str(error))
            return self._sizes

    async def _measure(self, generation: int, partitions: Sequence[Partition]) -> Sizes:
        began_s = self._clock()
        sizes = await self.sizes(partitions)
        now_s = self._clock()
        if generation == self._generation:
            self._sizes = sizes
            took_s = now_s - began_s
            self._kept_until_s = now_s + (KEEP_TIMES * took_s if took_s > QUICK_S else 0)
        return sizes
