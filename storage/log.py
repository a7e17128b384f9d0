"""The log as the broker sees it: append, read, where partitions begin and end, offsets by time.

Postgres says what is committed. This object remembers, per partition, the highest high watermark
it has seen and the last bytes it committed itself; it is asked about thousands of partitions at a
time and never makes more than one query for them.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

import structlog

from protocol.batch import read_header, set_base_offset
from protocol.batch_scan import FoundTimestamp
from protocol.control_batch import read_end_marker
from protocol.ids import Partition
from storage.aborted_indexes import AbortedIndexes
from storage.aborted_transaction import AbortedTransaction
from storage.errors import MetadataUnavailable, MetadataWentBack, StorageError
from storage.known_ends import KnownEnds, check_offsets, known_ends
from storage.metadata.port import MetadataStore
from storage.metrics import StorageMetrics
from storage.outage import Outage
from storage.partition_log import PartitionLog
from storage.partition_offsets import PartitionOffsets
from storage.reading.block_cache import BlockCache
from storage.reading.read_planner import END, ColdRead
from storage.reading.reader import Reader, Records
from storage.reading.timestamp_search import TimestampSearch
from storage.writer import Writer

POLL_S: Final = 0.1
REFRESHED_AT_ONCE: Final = 500
"""Partitions in a query: what comes of it takes the event loop 3 ms."""
POLLED_AT_ONCE: Final = 2_000
"""The same, where little comes of it, with asking who waits for them."""

_NOTHING: Final = Records((), 0)

log = structlog.get_logger()


class Log:
    """All partitions, as seen by one broker.

    Attributes:
        append: see Writer.append.
        note_refused: see Writer.note_refused.
    """

    def __init__(
        self,
        *,
        metadata: MetadataStore,
        writer: Writer,
        blocks: BlockCache,
        metrics: StorageMetrics,
    ) -> None:
        self.append = writer.append
        self.note_refused = writer.note_refused
        self._telling = writer.telling
        self._metadata = metadata
        self._tail = writer.tail
        self._reader = Reader(metadata, blocks, metrics)
        self._aborted = AbortedIndexes(metadata)
        self._timestamps = TimestampSearch(metadata, blocks)
        self._metrics = metrics
        self._logs: dict[UUID, dict[int, PartitionLog]] = {}
        self._read: set[PartitionLog] = set()
        self._went_back: MetadataWentBack | None = None

    def partition(self, partition: Partition) -> PartitionLog:
        """Return what is known of a partition that the caller knows to exist."""
        logs = self._logs.setdefault(partition.topic_id, {})
        found = logs.get(partition.index)
        if found is None:
            found = logs[partition.index] = PartitionLog(partition, self._read)
        return found

    def known_partitions(self) -> Iterable[PartitionLog]:
        """Return every partition that was asked for since the start."""
        for logs in self._logs.values():
            yield from logs.values()

    def forget_topic(self, topic_id: UUID) -> None:
        """Drop what is known of a deleted topic and wake all who wait for it."""
        for partition_log in self._logs.pop(topic_id, {}).values():
            partition_log.remove()

    def leaders_changed(self) -> None:
        """Take note that another broker may have led any partition since it was last heard of."""
        for partition_log in self.known_partitions():
            partition_log.leader_changed()

    def wake_waiters(self) -> None:
        """Make everybody who waits for a partition look again."""
        for partition_log in self.known_partitions():
            partition_log.wake()

    def append_markers(self, marker: bytes, offsets: Mapping[Partition, PartitionOffsets]) -> None:
        """Take note of the end of a transaction; tail reads have it where partitions are known.

        Args:
            marker: a control batch of one record, base offset 0.
            offsets: of each partition of the transaction, just after its end: the marker is the
                last record before the high watermark.
        """
        self._telling.ended(
            read_end_marker(marker),
            {partition: found.high_watermark - 1 for partition, found in offsets.items()},
        )
        for partition, found in offsets.items():
            known = self._known(partition)
            if known is None:
                continue
            batch = bytearray(marker)
            set_base_offset(batch, found.high_watermark - 1)
            self._keep_committed(known, memoryview(batch))
            known.refresh(found)

    async def refresh(self, logs: Sequence[PartitionLog]) -> dict[Partition, PartitionOffsets]:
        """Ask Postgres where these partitions begin and end; those that are gone are left out.

        Raises:
            MetadataUnavailable: no answer.
        """
        offsets: dict[Partition, PartitionOffsets] = {}
        for start in range(0, len(logs), REFRESHED_AT_ONCE):
            piece = logs[start : start + REFRESHED_AT_ONCE]
            known = known_ends(piece)
            offsets |= await self._metadata.partition_offsets([one.partition for one in piece])
            self._check(known, offsets)
            for one in piece:
                if one.partition in offsets:
                    one.refresh(offsets[one.partition])
                else:
                    one.remove()
        return offsets

    def _check(self, known: KnownEnds, offsets: Mapping[Partition, PartitionOffsets]) -> None:
        """Check that no log ends before where it ended; if one does, `poll` ends the broker."""
        try:
            check_offsets(known, offsets)
        except MetadataWentBack as error:
            self._went_back = error
            raise

    def read_tail(
        self, partition_log: PartitionLog, offset: int, max_bytes: int, end_offset: int = END
    ) -> Records:
        """Return what memory holds from `offset` on; empty if it does not hold that offset.

        A batch that begins at `end_offset` is not wanted any more.
        """
        batches, size = partition_log.tail.read(offset, max_bytes, end_offset)
        if not batches:
            return _NOTHING
        self._metrics.reads_from_tail.value += 1
        return Records(batches, size)

    async def read_store(self, reads: Sequence[ColdRead]) -> list[Records | StorageError]:
        """Serve reads from the object store, with one query of the index.

        Raises:
            MetadataUnavailable: the index gave no answer.
        """
        results = await self._reader.read(reads)
        for read, result in zip(reads, results, strict=True):
            tail = read.log.tail
            missed = read.offset == tail.end_offset or tail.gap_end(read.offset) is not None
            if missed and isinstance(result, Records):
                self._keep_markers(read.log, result)
        return results

    def _keep_markers(self, partition_log: PartitionLog, records: Records) -> None:
        """Fill a gap of the tail: markers that another broker wrote are read from here on."""
        for batch in records.batches:
            if not read_header(batch).is_control:
                return
            marker = memoryview(bytes(batch))  # a view would hold on to the whole run
            if not self._keep_committed(partition_log, marker):
                return

    def _keep_committed(self, partition_log: PartitionLog, batch: memoryview) -> bool:
        """Put a batch of the log that the writer did not commit where tail reads find it.

        Returns:
            False if it does not go on where what is held ends.
        """
        header = read_header(batch)
        end_offset = header.base_offset + header.last_offset_delta + 1
        return self._tail.insert(partition_log.tail, header.base_offset, end_offset, batch)

    async def aborted_transactions(
        self,
        partition_log: PartitionLog,
        start_offset: int,
        end_offset: int,
        *,
        stable_offset: int,
        aborted_count: int,
    ) -> list[AbortedTransaction]:
        """Return what a reader of committed records skips (see AbortedIndex.overlapping).

        Raises:
            OffsetOutOfRange, UnknownPartition, MetadataUnavailable: as that does.
        """
        if aborted_count == 0:
            return []
        return await self._aborted.overlapping(
            partition_log.partition,
            start_offset,
            end_offset,
            stable_offset=stable_offset,
            aborted_count=aborted_count,
        )

    async def offset_for_timestamp(
        self, partition_log: PartitionLog, timestamp_ms: int
    ) -> FoundTimestamp | None:
        """Return the first record, in offset order, whose timestamp is >= `timestamp_ms`.

        Raises:
            BadObject, ObjectStoreUnavailable: the record's bytes cannot be read.
            MetadataUnavailable: the index gave no answer.
        """
        return await self._timestamps.first_at_or_after(
            partition_log.partition, timestamp_ms, partition_log.log_start_offset
        )

    async def offset_of_max_timestamp(self, partition_log: PartitionLog) -> FoundTimestamp | None:
        """Return the record with the largest timestamp (KIP-734); None if there is no record.

        Raises:
            As `offset_for_timestamp`.
        """
        return await self._timestamps.latest(
            partition_log.partition, partition_log.log_start_offset
        )

    async def poll(self) -> None:
        """Look for commits of other brokers, by few queries, where someone reads at the end.

        Raises:
            MetadataWentBack: whoever asked has found that nothing known here holds any more.
        """
        outage = Outage()
        while True:
            await asyncio.sleep(POLL_S)
            if self._went_back is not None:
                raise self._went_back
            read = list(self._read)
            try:
                for start in range(0, len(read), POLLED_AT_ONCE):
                    piece = read[start : start + POLLED_AT_ONCE]
                    awaited = [one for one in piece if one.take_poll()]
                    self._read.difference_update(set(piece).difference(awaited))
                    if awaited:
                        await self._look_for_changes(awaited)
                        outage.end()
            except MetadataUnavailable as error:
                if outage.take_warning():
                    log.warning("no news of other brokers' commits", reason=str(error))

    async def _look_for_changes(self, logs: Sequence[PartitionLog]) -> None:
        """Ask Postgres which of them have changed: most have not, so it says little."""
        known = {one.partition: one.offsets for one in logs}
        changed = await self._metadata.changed_offsets(known)
        for one in logs:
            one.is_end_known = True
        for partition, offsets in changed.items():
            changed_log = self._known(partition)
            if changed_log is None:
                continue
            if offsets is None:
                changed_log.remove()
            else:
                ends = {changed_log: known[partition].high_watermark}
                self._check(ends, {partition: offsets})
                changed_log.refresh(offsets)

    def _known(self, partition: Partition) -> PartitionLog | None:
        """Return a partition that was asked for, and is not forgotten."""
        return self._logs.get(partition.topic_id, {}).get(partition.index)
