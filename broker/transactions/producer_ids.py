"""Producer ids (KIP-98), which ascend in the order in which they are given out."""

import asyncio

from broker.shared_load import shared_task
from storage.metadata.port import MetadataStore


class ProducerIds:
    """Each id is given once, ever. Who asks at the same time shares one question to Postgres.

    No block of them is kept for later, as Apache Kafka's brokers do: a partition tells by its id
    whether a producer can be one that it has forgotten (migration 0017). So an id of one who goes
    away before it is there is nobody's.
    """

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._end = 0
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[int] | None = None  # a question that is not asked yet
        self._asking = 0  # how many share it

    async def take(self) -> int:
        """Return a producer id that nobody has.

        Raises:
            MetadataUnavailable: Postgres does not answer, as all are told who share the question.
        """
        if self._next is None:
            self._next = shared_task(self._reserve_in_turn())
            self._asking = 0
        place = self._asking
        self._asking += 1
        return await asyncio.shield(self._next) + place

    async def _reserve_in_turn(self) -> int:
        async with self._turn:
            self._next = None
            return await self._reserve(self._asking)

    async def _reserve(self, count: int) -> int:
        """Return the first of so many ids that nobody has."""
        first = await self._metadata.allocate_producer_ids(count)
        if first < self._end:  # Postgres has gone back, to a standby that lagged
            count += self._end - first
            first = await self._metadata.allocate_producer_ids(count)
        reserved, self._end = max(first, self._end), first + count
        return reserved
