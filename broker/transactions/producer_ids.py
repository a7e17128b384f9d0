"""Producer ids (KIP-98), which ascend in the order in which they are given out."""

import asyncio

from storage.metadata.port import MetadataStore


class ProducerIds:
    """Each id is given once, ever. Who asks at the same time shares one question to Postgres.

    No block of them is kept for later, as Apache Kafka's brokers do: a partition tells by its id
    whether a producer can be one that it has forgotten (migration 0017).
    """

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._next = self._end = 0
        self._asking = 0
        self._lock = asyncio.Lock()

    async def take(self) -> int:
        """Return a producer id that nobody has.

        Raises:
            MetadataUnavailable: Postgres does not answer.
        """
        self._asking += 1
        try:
            async with self._lock:
                if self._next == self._end:
                    await self._reserve(self._asking)
                self._next += 1
                return self._next - 1
        finally:
            self._asking -= 1
            if self._asking == 0:  # what is left is of those who went away, and old by and by
                self._next = self._end

    async def _reserve(self, count: int) -> None:
        first = await self._metadata.allocate_producer_ids(count)
        if first < self._end:  # Postgres has gone back, to a standby that lagged
            count += self._end - first
            first = await self._metadata.allocate_producer_ids(count)
        self._next, self._end = max(first, self._end), first + count
