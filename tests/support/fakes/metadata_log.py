"""A partition's log, in memory: its index, its producers, its open and its aborted transactions."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final

from protocol.batch import NO_PRODUCER_ID
from protocol.ids import Partition
from storage.aborted_transaction import AbortedTransaction
from storage.metadata.metadata_commit import Outcome
from storage.metadata.port import BatchCommit, TransactionUse
from storage.metadata.transactions import ProducerState, TransactionEnd
from storage.partition_offsets import PartitionOffsets
from storage.segment_entry import SegmentEntry
from tests.support.fakes.metadata_index import MemoryIndex

SEQUENCES: Final = 2**31


@dataclass(slots=True)
class _Producer:
    """A producer's state in a partition (KIP-98).

    Attributes:
        written_ms: when it last wrote, or a marker was written for it.
        recent: its last batches as (first sequence, last sequence, base offset).
    """

    epoch: int
    written_ms: int
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))

    @property
    def last_sequence(self) -> int:
        return self.recent[-1][1] if self.recent else -1

    def judge(self, batch: BatchCommit) -> tuple[Outcome, int]:
        """Return the outcome, and the base offset of the first copy of a duplicate."""
        if batch.producer_epoch < self.epoch:
            return Outcome.INVALID_PRODUCER_EPOCH, -1
        next_sequence = 0
        if batch.producer_epoch == self.epoch:
            sequences = (batch.base_sequence, _last_sequence(batch))
            for first, last, base_offset in self.recent:
                if (first, last) == sequences:
                    return Outcome.DUPLICATE, base_offset
            next_sequence = (self.last_sequence + 1) % SEQUENCES
        in_order = batch.base_sequence == next_sequence
        return (Outcome.APPENDED if in_order else Outcome.OUT_OF_ORDER_SEQUENCE), -1


@dataclass(slots=True)
class MemoryPartition:
    """One partition.

    Attributes:
        leader_epoch: the newest with which it was asked to take a batch.
        built_offset: rows before it are built segments, or were stepped over.
        forgotten_producer_id: the highest id of a producer of which something may be forgotten.
        compacted_offset: where log compaction has come to.
        cleaned_ms: nothing behind that was written before, as far as is known.
        unstable: first offset of each open transaction that has records here, by producer id.
        aborted: in the order of their last offsets, without those before the log start offset that
            were purged.
        aborted_count: of all that there ever were.
    """

    log_start_offset: int = 0
    high_watermark: int = 0
    leader_epoch: int = 0
    built_offset: int = 0
    forgotten_producer_id: int = -1
    compacted_offset: int = 0
    cleaned_ms: int = 0
    index: MemoryIndex = field(default_factory=MemoryIndex)
    unstable: dict[int, int] = field(default_factory=dict)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    aborted_count: int = 0
    _producers: dict[int, _Producer] = field(default_factory=dict)

    def offsets(self) -> PartitionOffsets:
        unstable = min(self.unstable.values(), default=self.high_watermark)
        return PartitionOffsets(
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            last_stable_offset=max(unstable, self.log_start_offset),
            aborted_count=self.aborted_count,
        )

    def delete_records(self, offset: int) -> PartitionOffsets:
        """Begin at an offset, unless it is before the start or past the end; -1 is the end."""
        new_start = self.high_watermark if offset == -1 else offset
        if self.log_start_offset < new_start <= self.high_watermark:
            self.log_start_offset = new_start
        return self.offsets()

    def judge(self, batch: BatchCommit, next_producer_id: int) -> tuple[Outcome, int]:
        """Judge an idempotent batch by what its producer wrote here.

        Args:
            batch: that comes next.
            next_producer_id: one from there on is of another cluster.

        Returns:
            APPENDED, DUPLICATE, OUT_OF_ORDER_SEQUENCE or INVALID_PRODUCER_EPOCH; and the base
            offset of the first copy of a duplicate, else -1.
        """
        producer = self._producers.get(batch.producer_id)
        if producer is not None:
            return producer.judge(batch)
        is_new = self.forgotten_producer_id < batch.producer_id < next_producer_id
        # A client of KIP-890 never goes on in the middle of what a partition has forgotten.
        may_go_on = not is_new and batch.transaction is not TransactionUse.ADDS
        strange = batch.base_sequence != 0 and not may_go_on
        return (Outcome.OUT_OF_ORDER_SEQUENCE if strange else Outcome.APPENDED), -1

    def append(self, path: str, batch: BatchCommit, now_ms: int) -> int:
        """Make a batch that was judged part of the log; return its base offset."""
        base_offset = self.high_watermark
        self.high_watermark += batch.record_count
        if batch.producer_id != NO_PRODUCER_ID:
            producer = self._producers.get(batch.producer_id)
            if producer is None or batch.producer_epoch > producer.epoch:
                producer = _Producer(batch.producer_epoch, now_ms)
                self._producers[batch.producer_id] = producer
            producer.recent.append((batch.base_sequence, _last_sequence(batch), base_offset))
            producer.written_ms = now_ms
        if batch.transaction is not TransactionUse.NONE:
            self.unstable.setdefault(batch.producer_id, base_offset)
        self.index.append(
            SegmentEntry(
                start_offset=base_offset,
                end_offset=base_offset + batch.record_count - 1,
                path=path,
                start=batch.start,
                length=batch.length,
                max_timestamp_ms=batch.max_timestamp_ms,
            ),
            now_ms,
        )
        return base_offset

    def end_transaction(
        self, partition: Partition, end: TransactionEnd, now_ms: int
    ) -> PartitionOffsets:
        """Write the marker of a transaction, whether it has records here or not."""
        offset = self.high_watermark
        self.high_watermark += 1
        self.index.append(
            SegmentEntry(
                start_offset=offset,
                end_offset=offset,
                path=f"{partition.topic_id}/{partition.index}@{offset}",
                start=0,
                length=len(end.marker),
                max_timestamp_ms=end.marker_timestamp_ms,
                inline=end.marker,
            ),
            now_ms,
        )
        producer_id = end.producer.producer_id
        first_offset = self.unstable.pop(producer_id, None)
        if first_offset is not None and not end.committed:
            self.aborted_count += 1
            self.aborted.append(
                AbortedTransaction(
                    producer_id=producer_id, first_offset=first_offset, last_offset=offset
                )
            )
        if end.bumps_epoch:  # so nothing of the old epoch is appended behind the marker (KIP-890)
            epoch = end.producer.producer_epoch + 1
            self._producers[producer_id] = _Producer(epoch, now_ms)
        return self.offsets()

    def producer_states(self) -> list[ProducerState]:
        return [
            ProducerState(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp_ms=producer.written_ms,
                transaction_start_offset=self.unstable.get(producer_id, -1),
            )
            for producer_id, producer in sorted(self._producers.items())
        ]

    def readable(self) -> list[SegmentEntry]:
        """Return the runs that have records from the log start offset on."""
        return self.index.rows_from(self.log_start_offset)

    def unbuilt_offset(self) -> int:
        """Return where what is not built begins."""
        return max(self.built_offset, self.log_start_offset)

    def replace(self, replaced: Sequence[SegmentEntry], entry: SegmentEntry, now_ms: int) -> bool:
        """Put a built segment in the place of rows, unless they changed or cannot be read."""
        if entry.end_offset < self.log_start_offset:
            return False
        if not self.index.swap(replaced, entry, now_ms):
            return False
        if entry.start_offset <= self.unbuilt_offset() <= entry.end_offset:
            self.built_offset = entry.end_offset + 1
        return True

    def expire(
        self, before_ms: int | None, keep_bytes: int | None, time_of: Callable[[SegmentEntry], int]
    ) -> bool:
        """Begin behind the rows that have had their time; return whether it does."""
        last_stable_offset = self.offsets().last_stable_offset
        stable = [row for row in self.readable() if row.end_offset < last_stable_offset]
        new_start = self.log_start_offset
        if before_ms is not None:
            for row in takewhile(lambda row: time_of(row) < before_ms, stable):
                new_start = row.end_offset + 1
        if keep_bytes is not None:
            rest = sum(row.length for row in self.readable())
            for row in stable:
                rest -= row.length
                if rest >= keep_bytes:
                    new_start = max(new_start, row.end_offset + 1)
        moves = new_start > self.log_start_offset
        self.log_start_offset = new_start
        return moves

    def remove_aborted(self, limit: int) -> int:
        """Forget at most `limit` aborted transactions before the log start; return how many."""
        ended = (each.last_offset < self.log_start_offset for each in self.aborted[:limit])
        count = sum(ended)  # they come first
        del self.aborted[:count]
        return count

    @property
    def producer_ids(self) -> Collection[int]:
        """Those that something is known of."""
        return self._producers.keys()

    def forget_producer(self, producer_id: int, written_ms: int, next_producer_id: int) -> bool:
        """Forget it if it wrote last then, or before, and has nothing open here.

        Those of other clusters, from `next_producer_id` on, may go on here anyway.
        """
        if self._producers[producer_id].written_ms > written_ms or producer_id in self.unstable:
            return False
        del self._producers[producer_id]
        if producer_id < next_producer_id:
            self.forgotten_producer_id = max(self.forgotten_producer_id, producer_id)
        return True


def in_oldest_epoch(batches: Sequence[BatchCommit]) -> list[BatchCommit]:
    """Return the batches of one object, each in the oldest leader epoch of its partition there."""
    oldest: dict[Partition, int] = {}
    for batch in batches:
        known = oldest.get(batch.partition, batch.leader_epoch)
        oldest[batch.partition] = min(known, batch.leader_epoch)
    return [replace(batch, leader_epoch=oldest[batch.partition]) for batch in batches]


def _last_sequence(batch: BatchCommit) -> int:
    return (batch.base_sequence + batch.record_count - 1) % SEQUENCES
