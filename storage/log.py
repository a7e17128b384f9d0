"""The log as the broker sees it: append, read, where partitions begin and end, offsets by time.

Postgres says what is committed. This object remembers, per partition, the highest watermark it has
seen and the last bytes it committed itself; it is asked about thousands of partitions at a time and
never makes more than one query for them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import structlog

from protocol.batch import BatchHeader
from protocol.batch_scan import FoundTimestamp, find_first_at_or_after, find_max_timestamp
from protocol.ids import Partition
from storage.errors import MetadataUnavailable, StorageError
from storage.metadata import BatchOutcome, MetadataStore, PartitionOffsets, SegmentEntry
from storage.metrics import StorageMetrics
from storage.partition_log import PartitionLog
from storage.reader import BlockCache, ColdRead, Reader, Records
from storage.writer import Writer

POLL_S: Final = 0.1
_NOTHING: Final = Records((), 0)

log = structlog.get_logger()


class Log:
    """All partitions, as seen by one broker."""

    def __init__(
        self,
        *,
        metadata: MetadataStore,
        writer: Writer,
        blocks: BlockCache,
        metrics: StorageMetrics,
    ) -> None:
        self._metadata = metadata
        self._writer = writer
        self._blocks = blocks
        self._reader = Reader(metadata, blocks, metrics)
        self._metrics = metrics
        self._logs: dict[UUID, dict[int, PartitionLog]] = {}

    def partition(self, partition: Partition) -> PartitionLog:
        """Return what is known of a partition that the caller knows to exist."""
        logs = self._logs.setdefault(partition.topic_id, {})
        found = logs.get(partition.index)
        if found is None:
            found = logs[partition.index] = PartitionLog(partition)
        return found

    def known_partitions(self) -> Iterable[PartitionLog]:
        """Return every partition that was asked for since the start."""
        for logs in self._logs.values():
            yield from logs.values()

    def forget_topic(self, topic_id: UUID) -> None:
        """Drop what is known of a deleted topic and wake all who wait for it."""
        for partition_log in self._logs.pop(topic_id, {}).values():
            partition_log.remove()

    def wake_waiters(self) -> None:
        """Make everybody who waits for a partition look again."""
        for partition_log in self.known_partitions():
            partition_log.wake()

    def append(
        self, partition_log: PartitionLog, data: memoryview, header: BatchHeader
    ) -> asyncio.Future[BatchOutcome]:
        """Take a verified batch; the future tells what became of it (see Writer)."""
        return self._writer.append(partition_log, data, header)

    async def refresh(self, logs: Sequence[PartitionLog]) -> dict[Partition, PartitionOffsets]:
        """Ask Postgres where these partitions begin and end; those that are gone are left out.

        Raises:
            MetadataUnavailable: no answer.
        """
        offsets = await self._metadata.partition_offsets([one.partition for one in logs])
        for one in logs:
            if one.partition in offsets:
                one.refresh(offsets[one.partition])
            else:
                one.remove()
        return offsets

    def read_tail(self, partition_log: PartitionLog, offset: int, max_bytes: int) -> Records:
        """Return what memory holds from `offset` on; empty if it does not hold that offset."""
        batches, size = partition_log.tail.read(offset, max_bytes)
        if not batches:
            return _NOTHING
        self._metrics.reads_from_tail.inc()
        return Records(batches, size)

    async def read_store(self, reads: Sequence[ColdRead]) -> list[Records | StorageError]:
        """Serve reads from the object store, with one query of the index.

        Raises:
            MetadataUnavailable: the index gave no answer.
        """
        return await self._reader.read(reads)

    async def offset_for_timestamp(
        self, partition_log: PartitionLog, timestamp_ms: int
    ) -> FoundTimestamp | None:
        """Return the first record, in offset order, whose timestamp is >= `timestamp_ms`.

        Raises:
            CorruptObject, ObjectMissing, ObjectStoreUnavailable: the record's bytes cannot be read.
            MetadataUnavailable: the index gave no answer.
        """
        entry = await self._metadata.find_timestamp(partition_log.partition, timestamp_ms)
        if entry is None:
            return None
        batches = await self._batches_of(entry)
        return await asyncio.to_thread(find_first_at_or_after, batches, timestamp_ms)

    async def offset_of_max_timestamp(self, partition_log: PartitionLog) -> FoundTimestamp | None:
        """Return the record with the largest timestamp (KIP-734); None if there is no record.

        Raises:
            As `offset_for_timestamp`.
        """
        entry = await self._metadata.find_max_timestamp(partition_log.partition)
        if entry is None:
            return None
        return await asyncio.to_thread(find_max_timestamp, await self._batches_of(entry))

    async def _batches_of(self, entry: SegmentEntry) -> Sequence[memoryview]:
        run = await asyncio.shield(self._blocks.load(entry))
        return run.batches

    async def poll(self) -> None:
        """Look for commits of other brokers, by one query, where someone reads at the end."""
        while True:
            await asyncio.sleep(POLL_S)
            awaited = [one for one in self.known_partitions() if one.take_poll()]
            if not awaited:
                continue
            try:
                await self.refresh(awaited)
            except MetadataUnavailable as error:
                log.warning("no news of other brokers' commits", reason=str(error))
