"""What is true of a partition's index whenever one looks."""

from itertools import pairwise

from protocol.ids import Partition
from storage.metadata.port import SegmentLookup
from storage.partition_offsets import PartitionOffsets
from storage.segment_entry import SegmentEntry
from tests.contracts.metadata_stores import EVERYTHING
from tests.contracts.segment_side import Segments

MAX_ROWS_PER_LOOKUP = 100


def check_tiling(rows: list[SegmentEntry], offsets: PartitionOffsets) -> None:
    """Rows cover all that can be read, each offset once."""
    for row in rows:
        assert row.start_offset <= row.end_offset
    for row, following in pairwise(rows):
        assert row.end_offset + 1 == following.start_offset
    start = rows[0].start_offset if rows else offsets.high_watermark
    end = rows[-1].end_offset + 1 if rows else offsets.high_watermark
    assert start <= offsets.log_start_offset <= offsets.last_stable_offset <= end
    assert end == offsets.high_watermark


def check_nothing_moves_back(before: PartitionOffsets, now: PartitionOffsets) -> None:
    assert now.log_start_offset >= before.log_start_offset
    assert now.high_watermark >= before.high_watermark
    assert now.last_stable_offset >= before.last_stable_offset
    assert now.aborted_count >= before.aborted_count


async def check_readers(
    segments: Segments, partition: Partition, rows: list[SegmentEntry], log_start_offset: int
) -> None:
    """Every way to look at the index finds the rows that can be read."""
    store = segments.store
    readable = [row for row in rows if row.end_offset >= log_start_offset]
    lookup = SegmentLookup(partition=partition, offset=log_start_offset, max_bytes=EVERYTHING)
    assert await store.find_segments([lookup]) == [readable[:MAX_ROWS_PER_LOOKUP]]
    latest = max(readable, key=lambda row: row.max_timestamp_ms, default=None)
    assert await store.find_max_timestamp(partition) == latest
    if readable:
        end_offset = readable[-1].end_offset
        assert await store.segments_before(partition, end_offset, 9) == readable[-2:-11:-1]


async def check_built(
    segments: Segments, partition: Partition, rows: list[SegmentEntry], log_start_offset: int
) -> None:
    """What is built is the beginning of the log, and what is not is told."""
    readable = [row for row in rows if row.end_offset >= log_start_offset]
    built = [row for row in readable if row.index_length]
    assert readable[: len(built)] == built
    unbuilt = readable[len(built) :]
    found = await segments.unbuilt(partition)
    assert len(found) == bool(unbuilt)
    if unbuilt:
        assert found[0].built_offset == max(unbuilt[0].start_offset, log_start_offset)
        assert found[0].rows == len(unbuilt)
        assert found[0].size == sum(row.length for row in unbuilt)
        assert found[0].age_ms >= 0
    (cleanable,) = await segments.store.cleanable_ranges([partition])
    assert cleanable.log_start_offset == log_start_offset
    assert cleanable.clean_size + cleanable.dirty_size == sum(row.length for row in built)
