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
                    count = self._asking
                    self._next = await self._metadata.allocate_producer_ids(count)
                    self._end = self._next + count
                self._next += 1
                return self._next - 1
        finally:
            self._asking -= 1
