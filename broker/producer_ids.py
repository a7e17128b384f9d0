"""Producer ids (KIP-98), handed out from blocks that Postgres reserves for this broker."""

import asyncio
from typing import Final

from storage.metadata import MetadataStore

BLOCK: Final = 1000


class ProducerIds:
    """Each id is given once, ever; those of a block that a crash leaves over are never given."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._next = self._end = 0
        self._lock = asyncio.Lock()

    async def take(self) -> int:
        """Return a producer id that nobody has.

        Raises:
            MetadataUnavailable: the block is used up and Postgres does not answer.
        """
        async with self._lock:
            if self._next == self._end:
                self._next = await self._metadata.allocate_producer_ids(BLOCK)
                self._end = self._next + BLOCK
            self._next += 1
            return self._next - 1
