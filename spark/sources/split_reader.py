"""Reading a split on an executor: pieces of objects -> batches -> columns.

What is in memory is bounded whatever a split's size is: GETs that run ahead (split_pieces.py), and
payloads of about DECODE_BYTES, or one batch if that alone has more when decompressed.

Rows are swapped while they are read: objects of the writer become segments, segments are compacted.
The bytes of what was replaced stay for a minute; a task that comes later than that finds an object
missing. It asks the index once more from the offset on that it has reached, and goes on with what
is there now: batches keep their offsets. What the index still names and the store has not, or has
damaged, three times, or what retention has taken meanwhile, is data loss: an error, or with
failOnDataLoss=false a warning that says what is left out. So is what compaction has taken, where a
snapshot is read; elsewhere that is what a compacted topic means.
"""

import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, closing
from operator import attrgetter
from typing import Final

import pyarrow as pa

from protocol.batch import HEADER_BYTES, BatchHeader, read_header
from protocol.decompression import decompress_stored
from protocol.errors import (
    CorruptBatch,
    DecompressedTooLarge,
    InvalidRecords,
    UnsupportedCompression,
)
from spark.sources.cut import Range
from spark.sources.log_index import LogIndex
from spark.sources.planning import lose
from spark.sources.record_chunks import Payload
from spark.sources.record_columns import RecordColumns
from spark.sources.split import Split
from spark.sources.split_pieces import Failed, Got, cut, read_pieces
from spark.sources.stores import Stores, stores
from storage.bad_answers import AGAIN_AFTER_S
from storage.config import MiB
from storage.errors import BadObject, ObjectUnreadable
from storage.partition_offsets import PartitionOffsets
from storage.segment_entry import SegmentEntry
from storage.snapshots import Snapshots

DECODE_BYTES: Final = 4 * MiB
"""Of payloads that are decoded together."""

_START: Final = attrgetter("start")
_UNREADABLE: Final = (
    CorruptBatch,
    DecompressedTooLarge,
    InvalidRecords,
    UnsupportedCompression,
)


def read_split(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split, in offset order, with the columns of format("kafka").

    Raises:
        DataLoss: some are gone or damaged; the message says which.
        ObjectStoreUnavailable, MetadataUnavailable: no answer; Spark may try the task again.
    """
    reader = SplitReader(split, stores())
    payloads: list[Payload] = []
    size = 0
    for payload in reader.payloads():
        if payloads and size + len(payload.data) > DECODE_BYTES:
            yield from reader.decode(payloads)
            payloads, size = [], 0
        payloads.append(payload)
        size += len(payload.data)
    if payloads:
        yield from reader.decode(payloads)


class SplitReader:
    """Reads one split, once."""

    def __init__(self, split: Split, stores_: Stores) -> None:
        self._split = split
        self._stores = stores_
        self._bad: tuple[int, Iterator[float]] = (-1, iter(()))
        self._columns = RecordColumns(
            split.partition.topic,
            split.partition.partition,
            offsets=split.offsets,
            timestamps_ms=split.timestamps_ms,
            include_headers=split.include_headers,
        )
        self._aborted: dict[int, list[Range]] = {}
        for each in split.aborted:
            until = Range(start=each.first_offset, end=each.last_offset + 1)
            self._aborted.setdefault(each.producer_id, []).append(until)
        for of_producer in self._aborted.values():
            of_producer.sort(key=_START)

    def payloads(self) -> Iterator[Payload]:
        """Yield the records of each batch that has some that are wanted, in order."""
        for batch in self._batches():
            header = read_header(batch)
            if not self._is_wanted(header):
                continue
            try:
                data: memoryview | bytes = batch[HEADER_BYTES:]
                if header.codec:
                    data = decompress_stored(header.codec, data)
            except _UNREADABLE as error:
                self._lose_batch(header.base_offset, error)
                continue
            yield Payload(
                data=data,
                count=header.record_count,
                base_offset=header.base_offset,
                last_offset=header.base_offset + header.last_offset_delta,
                base_timestamp_ms=header.base_timestamp_ms,
                append_time_ms=header.max_timestamp_ms if header.is_log_append_time else None,
            )

    def decode(self, payloads: Sequence[Payload]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted records of payloads, which are few, or one."""
        if len(payloads) > 1:
            try:
                found = list(self._columns.decode(payloads))
            except InvalidRecords:
                for payload in payloads:  # which one is it?
                    yield from self.decode([payload])
            else:
                yield from found
            return
        try:
            yield from self._columns.decode(payloads)
        except InvalidRecords as error:
            self._lose_batch(payloads[0].base_offset, error)

    def _is_wanted(self, header: BatchHeader) -> bool:
        if header.is_control or header.record_count == 0:
            return False
        if not header.is_transactional or header.producer_id not in self._aborted:
            return True
        aborted = self._aborted[header.producer_id]  # one after the other: none begins in another
        before = bisect_right(aborted, header.base_offset, key=_START)
        return before == 0 or aborted[before - 1].end <= header.base_offset

    def _batches(self) -> Iterator[memoryview]:
        """Yield whole batches that may have wanted records, whatever happens to rows meanwhile."""
        rows: Sequence[SegmentEntry] = self._split.rows
        offset = self._split.offsets.start
        while rows:
            wanted = Range(start=offset, end=self._split.offsets.end)
            failed: Failed | None = None
            with closing(self._stores.iterate(self._pieces(rows, wanted))) as pieces:
                for got in pieces:
                    if isinstance(got, Failed):
                        failed = got
                        break
                    failed = yield from cut(got, wanted)
                    if failed is not None:
                        break
                    offset = got.pieces[-1].last_offset + 1
            if failed is None:
                return
            offset, rows = self._after(failed, max(offset, failed.offset))

    async def _pieces(
        self, rows: Sequence[SegmentEntry], wanted: Range
    ) -> AsyncGenerator[Got | Failed]:
        objects = await self._stores.store(self._split.location)
        source = read_pieces(objects, rows, wanted, self._split.timestamps_ms[0])
        async with aclosing(source) as pieces:
            async for piece in pieces:
                yield piece

    def _after(self, failed: Failed, offset: int) -> tuple[int, Sequence[SegmentEntry]]:
        """Return where to go on, and the rows of the index from there on.

        Raises:
            StorageError: what failed may be there when it is tried again.
            DataLoss: as `read_split`.
        """
        if not isinstance(failed.error, BadObject):
            raise failed.error
        offsets = Range(start=offset, end=self._split.offsets.end)
        there, rows = self._stores.run(self._look_again(offsets))
        name = f"{self._split.partition.topic}-{self._split.partition.partition}"
        if there is None:
            self._lose(f"{name} is gone from offset {offset} on: the topic was deleted")
            return offset, ()
        if there.log_start_offset > offset:
            self._lose(f"{name}: offsets {offset} to {there.log_start_offset - 1} were deleted")
            offset = there.log_start_offset
            rows = [row for row in rows if row.end_offset >= offset]
        is_same = bool(rows) and rows[0] == failed.row
        if is_same and self._is_tried_again(offset):
            return offset, rows
        snapshot_id = self._split.snapshot_id
        if snapshot_id is not None and self._stores.run(self._is_compacted_since(snapshot_id)):
            self._lose(
                f"{name}: compacted since snapshot {snapshot_id}, or that was deleted while it was"
                f" read: records from offset {offset} on may be gone"
            )
        if is_same and isinstance(failed.error, ObjectUnreadable):
            raise failed.error  # it is there, and may be given out one day
        if is_same:
            self._lose_range(offset, failed.last_offset, failed.error)
            offset = failed.last_offset + 1
            rows = [row for row in rows if row.end_offset >= offset]
        return offset, rows

    def _is_tried_again(self, offset: int) -> bool:
        """Return whether it is too early to leave out what is there, after a pause if it is.

        One bad answer says nothing of an object, and who leaves out a record of a stream does not
        come back to it.
        """
        if self._bad[0] != offset:
            self._bad = offset, iter(AGAIN_AFTER_S)
        pause_s = next(self._bad[1], None)
        if pause_s is not None:
            time.sleep(pause_s)
        return pause_s is not None

    async def _look_again(
        self, offsets: Range
    ) -> tuple[PartitionOffsets | None, list[SegmentEntry]]:
        partition = self._split.partition
        async with LogIndex.open(self._split.location.postgres) as index:
            there = await index.offsets([partition])
            rows = await index.rows(
                partition, offsets, min_timestamp_ms=self._split.timestamps_ms[0]
            )
        return there.get(partition), rows

    async def _is_compacted_since(self, snapshot_id: str) -> bool:
        """Return whether records of the snapshot may be gone; also if nobody knows it any more."""
        partition = self._split.partition
        async with Snapshots.open(self._split.location.postgres) as snapshots:
            found = await snapshots.partitions(snapshot_id)
        known = {(each.topic_id, each.partition): each.compacted for each in found}
        return known.get((partition.topic_id, partition.partition), True)

    def _lose_batch(self, base_offset: int, error: Exception) -> None:
        name = f"{self._split.partition.topic}-{self._split.partition.partition}"
        self._lose(f"{name}: the batch at offset {base_offset} cannot be read: {error}")

    def _lose_range(self, first_offset: int, last_offset: int, error: Exception) -> None:
        name = f"{self._split.partition.topic}-{self._split.partition.partition}"
        first = max(first_offset, self._split.offsets.start)
        last = min(last_offset, self._split.offsets.end - 1)
        self._lose(f"{name}: offsets {first} to {last} cannot be read: {error}")

    def _lose(self, message: str) -> None:
        lose(self._split.fail_on_data_loss, message)
