"""The end of a partition's built segments, batch by batch: what the writers' objects go on from.

It tells which of the writers' batches are built already, where producers have come to, and which
transactions are open (of those that began further back, recover_open.py tells). What lies further
back is not read else: a producer that wrote nothing since is not known.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final

from protocol.batch import NO_PRODUCER_ID, read_header
from protocol.control_batch import EndMarker, read_end_marker
from protocol.errors import ProtocolError
from storage.aborted_transaction import AbortedTransaction
from storage.errors import BadObject
from storage.objects.port import ObjectStore
from storage.recovery.recover_open import blocks_of, get_again, open_before
from storage.recovery.recover_producers import Producers
from storage.recovery.recover_records import record_checksums
from storage.recovery.recover_scratch import FoundBatch, FoundSegment
from storage.segment import read_block
from storage.segment_index import Block

TAIL_OFFSETS: Final = 1000  # at least, if there are so many
TAIL_BLOCKS: Final = 64  # at most, of up to 1 MiB

Between = tuple[FoundBatch | EndMarker, int]
"""A writer's batch, or the end of a transaction, with the offset that it has."""

BY_OFFSET: Final = itemgetter(1)


class BuiltTail:
    """The last batches that are built.

    Attributes:
        start_offset: of the first one.
        end_offset: one past the last offset that is built.
        producers: as they are there.
        aborted: transactions whose markers were seen.
        unreadable: what could not be read, and why.
    """

    def __init__(self, end_offset: int) -> None:
        self.start_offset = end_offset
        self.end_offset = end_offset
        self.producers = Producers()
        self.aborted: list[AbortedTransaction] = []
        self.unreadable: list[str] = []
        self._exact: Counter[tuple[int, int]] = Counter()
        self._alike: set[tuple[int, ...]] = set()
        self._records: dict[tuple[int, ...], list[frozenset[int]]] = {}  # of no known producer
        self._base_offsets: list[int] = []
        self._last_offsets: list[int] = []

    def has(self, batch: FoundBatch, expected_offset: int) -> bool:
        """Return whether a writer's batch is built.

        Args:
            batch: of an object of a writer.
            expected_offset: that the writer expected for it, not before the tail; negative if it
                did not know.
        """
        is_same = (batch.crc, batch.byte_length) in self._exact
        is_alike = _likeness(batch) in self._alike
        if expected_offset < 0:
            return is_same or (is_alike and batch.producer_id != NO_PRODUCER_ID)
        last_offset = expected_offset + batch.record_count - 1
        if expected_offset >= self.end_offset:
            return False  # if it is there all the same, it has come again (or see has_copies)
        return is_same or is_alike or self._is_compacted(expected_offset, last_offset)

    def has_copies(self, batch: FoundBatch, count: int) -> bool:
        """Return whether as many batches of the same bytes are built."""
        return self._exact[batch.crc, batch.byte_length] >= count

    def may_have_changed(self, batch: FoundBatch) -> bool:
        """Return whether only the records tell if a writer's batch is built, in other bytes."""
        return _likeness(batch) in self._records

    def has_records_of(self, batch: FoundBatch, checksums: frozenset[int]) -> bool:
        """Return whether a writer's batch is built, or what compaction has left of it.

        Args:
            batch: that may have changed.
            checksums: of its records (storage/recovery/recover_records.py).
        """
        return any(left and left <= checksums for left in self._records[_likeness(batch)])

    def _is_compacted(self, first: int, last: int) -> bool:
        """Return whether a batch of these offsets may have been there, and was removed."""
        if last >= self.end_offset:
            return False
        at = bisect_left(self._last_offsets, first)
        while first <= last and at < len(self._base_offsets) and self._base_offsets[at] <= first:
            first = self._last_offsets[at] + 1
            at += 1
        return first <= last

    def take_between(self, one: FoundBatch | EndMarker, offset: int) -> None:
        """Take what is next and not built: what it tells of its producer."""
        if isinstance(one, EndMarker):
            self._end_transaction(one, offset)
            return
        self.producers.take(one, offset)

    def take(self, batch: memoryview) -> None:
        """Take the next batch."""
        header = read_header(batch)
        self._base_offsets.append(header.base_offset)
        self._last_offsets.append(header.base_offset + header.last_offset_delta)
        if header.is_control:
            self._end_transaction(read_end_marker(batch), header.base_offset)
            return
        if not header.record_count:
            self._base_offsets.pop()
            self._last_offsets.pop()
            return
        count = header.last_offset_delta + 1
        producer = (header.producer_id, header.producer_epoch, header.base_sequence)
        likeness = (header.base_timestamp_ms, count, *producer)
        self._exact[header.crc, header.size] += 1
        self._alike.add(likeness)
        if header.producer_id == NO_PRODUCER_ID:
            self._records.setdefault(likeness, []).append(record_checksums(batch))
        self.producers.append(
            *(*producer, count, header.base_offset), transactional=header.is_transactional
        )

    def _end_transaction(self, marker: EndMarker, offset: int) -> None:
        began = self.producers.open.get(marker.producer_id)
        if began is not None and not marker.committed:
            self.aborted.append(
                AbortedTransaction(
                    producer_id=marker.producer_id,
                    first_offset=began.first_offset,
                    last_offset=offset,
                )
            )
        self.producers.end(marker.producer_id, marker.producer_epoch)


def _likeness(batch: FoundBatch) -> tuple[int, ...]:
    """Return what is never changed of a batch; only with a producer's id it is no chance."""
    return (
        batch.base_timestamp_ms,
        batch.record_count,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
    )


async def read_tail_of(
    objects: ObjectStore, chosen: Sequence[FoundSegment], between: Sequence[Between] = ()
) -> BuiltTail:
    """Read the last batches of a partition's built segments.

    Args:
        objects: where they are.
        chosen: the segments, in offset order.
        between: what lies in gaps of them and behind the last one, in offset order.

    Raises:
        ObjectStoreUnavailable: no answer.
    """
    tail = BuiltTail(chosen[-1].end_offset + 1 if chosen else 0)
    wanted: list[tuple[FoundSegment, Block]] = []
    for segment in reversed(chosen):
        try:
            blocks = await blocks_of(objects, segment)
        except BadObject as error:
            tail.unreadable.append(f"{segment.path}: {error}")
            break
        for block in reversed(blocks):
            wanted.append((segment, block))
            if _is_enough(tail, wanted):
                break
        if wanted and _is_enough(tail, wanted):
            break
    if wanted:
        tail.start_offset = wanted[-1][1].first_offset
        tail.producers.open |= await open_before(objects, chosen, tail.start_offset)
    placed = between[bisect_left(between, tail.start_offset, key=BY_OFFSET) :]
    await _read_into(tail, objects, wanted[::-1], placed)
    return tail


async def _read_into(
    tail: BuiltTail,
    objects: ObjectStore,
    blocks: Sequence[tuple[FoundSegment, Block]],
    placed: Iterable[Between],
) -> None:
    """Take all batches of blocks, and what is between and behind them."""
    others = deque(placed)
    for segment, block in blocks:
        try:
            data = await get_again(objects, segment.path, block.start, block.length)
            for batch in read_block(data, block).batches:
                while others and others[0][1] < read_header(batch).base_offset:
                    tail.take_between(*others.popleft())
                tail.take(batch)
        except (BadObject, ProtocolError) as error:
            tail.unreadable.append(f"{segment.path}: {error}")
    for one in others:
        tail.take_between(*one)


def _is_enough(tail: BuiltTail, wanted: Sequence[tuple[FoundSegment, Block]]) -> bool:
    first_offset = wanted[-1][1].first_offset
    return len(wanted) >= TAIL_BLOCKS or tail.end_offset - first_offset >= TAIL_OFFSETS
