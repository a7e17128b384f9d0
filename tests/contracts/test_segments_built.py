"""What storage/metadata/segments.py promises, asked of every metadata store: how far a log is
built.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from protocol.ids import Partition
from storage.metadata.port import BatchCommit
from storage.segment_entry import SegmentEntry
from tests.contracts.metadata_stores import KINDS, a_batch, commit, reserved
from tests.contracts.segment_side import HOUR_MS, Segments, keeps, open_segments, row_of


@pytest.fixture(params=KINDS)
async def segments(request: pytest.FixtureRequest) -> AsyncIterator[Segments]:
    """Each store in turn, empty."""
    async with open_segments(request.param) as opened:
        yield opened


async def built_offset(segments: Segments, partition: Partition) -> int | None:
    """Return where what is not built begins; None if all is built."""
    ranges = await segments.unbuilt(partition)
    return ranges[0].built_offset if ranges else None


async def test_what_is_not_built_is_counted_and_measured(segments: Segments) -> None:
    # Given a partition with rows of different ages, one with a row, and one without
    first, second, empty = await segments.partitions(3)
    await segments.write(first, length=100)
    await segments.passes(HOUR_MS)
    await segments.write(first, length=200)
    await segments.write(second, length=50)

    # Then each that has something is told, with the age of its oldest row
    (many,) = await segments.unbuilt(first)
    assert (many.built_offset, many.rows, many.size) == (0, 2, 300)
    assert HOUR_MS <= many.age_ms < 2 * HOUR_MS
    (one,) = await segments.unbuilt(second)
    assert (one.built_offset, one.rows, one.size) == (0, 1, 50)
    assert 0 <= one.age_ms < HOUR_MS
    assert await segments.unbuilt(empty) == []

    # And counting stops where it is told to
    assert [each.rows for each in await segments.unbuilt(first, max_rows=1)] == [1]

    # When the older row is built, then the other is left
    await segments.build(first, rows=1)
    (rest,) = await segments.unbuilt(first)
    assert (rest.built_offset, rest.rows, rest.size) == (10, 1, 200)
    assert rest.age_ms < HOUR_MS


async def test_the_age_of_a_row_begins_when_it_is_written(segments: Segments) -> None:
    # Given a path that was reserved long before it was needed
    (partition,) = await segments.partitions(1)
    path = await reserved(segments.store)
    await segments.passes(HOUR_MS)

    # When it is committed, then the row is new
    await segments.store.commit_object(path, 100, [a_batch(partition, 0)])
    (unbuilt,) = await segments.unbuilt(partition)
    assert unbuilt.age_ms < HOUR_MS


async def test_partitions_are_looked_at_page_by_page(segments: Segments) -> None:
    # Given two topics, every second of whose partitions has a row
    partitions = sorted(await segments.partitions(5) + await segments.partitions(4))
    written = partitions[::2]
    for partition in written:
        await segments.write(partition)

    # When they are paged in any size, then each is told once, in order
    for limit in (1, 2, 3, 8, 9, 10):
        found: list[Partition] = []
        after: Partition | None = None
        for _ in range(20):
            ranges, after = await segments.store.unbuilt_ranges(after, limit, 9)
            assert len(ranges) <= limit
            found += [each.partition for each in ranges]
            if after is None:
                break
        assert after is None
        assert found == written


async def test_built_moves_only_when_its_end_is_within(segments: Segments) -> None:
    # Given four rows, of which two are built one by one
    (partition,) = await segments.partitions(1)
    for _ in range(4):
        await segments.write(partition)
    built = [await segments.build(partition, rows=1) for _ in range(2)]
    assert await built_offset(segments, partition) == 20

    # When a built segment is replaced, then what is not built begins where it began
    compacted = await segments.swap(partition, built[:1], length=10)
    assert await segments.store.replace_segments(compacted)
    assert await built_offset(segments, partition) == 20

    # When built and other rows become one, then it begins behind them
    rows = await segments.rows(partition)
    assert rows[:2] == [row_of(compacted), built[1]]
    assert await segments.store.replace_segments(await segments.swap(partition, rows[1:3]))
    assert await built_offset(segments, partition) == 30
    assert await segments.store.replace_segments(
        await segments.swap(partition, (await segments.rows(partition))[1:])
    )
    assert await built_offset(segments, partition) is None


async def test_rows_are_stepped_over_only_where_what_is_not_built_begins(
    segments: Segments,
) -> None:
    # Given five rows, the first of them built
    partition, empty = await segments.partitions(2)
    rows = [await segments.write(partition) for _ in range(5)]
    await segments.build(partition, rows=1)
    step_over = segments.store.step_over

    # When rows are stepped over that are built, or not the first, then nothing changes
    assert not await step_over(partition, 0, 9)
    assert not await step_over(partition, 20, 29)
    assert not await step_over(empty, 10, 19)
    assert await built_offset(segments, partition) == 10

    # When it is the first ones, then they stay as they are, and those behind them are next
    assert await step_over(partition, 10, 29)
    assert not await step_over(partition, 10, 29)
    (rest,) = await segments.unbuilt(partition)
    assert (rest.built_offset, rest.rows) == (30, 2)
    built = await segments.build(partition)
    assert (await segments.rows(partition))[1:] == [*rows[1:3], built]
    assert await built_offset(segments, partition) is None

    # And compaction may go through all of it
    (found,) = await segments.store.cleanable_ranges([partition])
    assert found.end_offset == 50

    # And they can become a segment yet, alone or with others
    swap = await segments.swap(partition, await segments.rows(partition))
    assert await segments.store.replace_segments(swap)
    assert await segments.rows(partition) == [row_of(swap)]
    assert await built_offset(segments, partition) is None


async def test_rows_that_the_log_begins_in_are_stepped_over(segments: Segments) -> None:
    (partition,) = await segments.partitions(1)
    for _ in range(2):
        await segments.write(partition)
    await segments.store.delete_records({partition: 5})
    assert await segments.store.step_over(partition, 0, 9)
    assert await built_offset(segments, partition) == 10


async def test_what_is_deleted_need_not_be_built(segments: Segments) -> None:
    # Given three rows, one of them built, and a log that has come to begin in the last
    (partition,) = await segments.partitions(1)
    for _ in range(3):
        await segments.write(partition)
    await segments.build(partition, rows=1)
    await segments.store.delete_records({partition: 25})

    # Then only the last one is to be built, whatever is purged
    for _ in range(2):
        (unbuilt,) = await segments.unbuilt(partition)
        assert (unbuilt.built_offset, unbuilt.rows) == (25, 1)
        await segments.purge()

    # And when it is, nothing is left; and later rows are to be built
    await segments.build(partition)
    assert await segments.unbuilt(partition) == []
    await segments.write(partition)
    assert await built_offset(segments, partition) == 30


async def test_a_log_that_is_deleted_to_its_end_is_built(segments: Segments) -> None:
    # Given rows that are not built, and have had their time
    (partition,) = await segments.partitions(1)
    await segments.write(partition)
    assert await segments.store.expire_records([keeps(partition, before_ms=1)])

    # Then there is nothing to be built
    assert await segments.unbuilt(partition) == []


async def test_markers_are_built_like_other_rows(segments: Segments) -> None:
    # Given a partition with a transaction's records and its marker
    (partition,) = await segments.partitions(1)
    producer = await segments.transactions.producer()
    assert await segments.transactions.send(producer, partition) == 0
    await segments.transactions.goes_on(producer, committed=False)
    rows = await segments.rows(partition)
    assert [row.inline for row in rows] == [None, b"abort!!"]

    # When they are built, then the row is of the segment, and stable offsets are as before
    stands, aborted = (
        await segments.transactions.stands(partition),
        await segments.transactions.aborted(partition),
    )
    assert await segments.build(partition) == (await segments.rows(partition))[0]
    assert len(await segments.rows(partition)) == 1
    assert await segments.transactions.stands(partition) == stands
    assert await segments.transactions.aborted(partition) == aborted


async def test_one_of_those_that_build_the_same_wins(segments: Segments) -> None:
    # Given rows that several read
    (partition,) = await segments.partitions(1)
    rows = [await segments.write(partition) for _ in range(3)]
    swaps = [await segments.swap(partition, rows[begin:]) for begin in (0, 0, 1, 2)]

    # When they swap at once, and records are written, then one swap is done, and all stay in order
    answers = await asyncio.gather(
        *(segments.store.replace_segments(swap) for swap in swaps),
        commit(segments.store, a_few(partition)),
    )
    won = [swap for swap, answer in zip(swaps, answers, strict=False) if answer is True]
    assert len(won) == 1
    states = await segments.states()
    assert [states[swap.path] for swap in swaps].count("live") == 1
    found = await segments.rows(partition)
    assert row_of(won[0]) in found
    assert covers(found) == [(0, 60)]


def a_few(partition: Partition) -> list[BatchCommit]:
    """Batches that make three rows."""
    return [a_batch(partition, start) for start in (0, 200, 400)]


def covers(rows: list[SegmentEntry]) -> list[tuple[int, int]]:
    """Return the ranges [start, end) that rows hold, joined where they are adjacent."""
    ranges: list[tuple[int, int]] = []
    for row in rows:
        start = row.start_offset
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]
        ranges.append((start, row.end_offset + 1))
    return ranges
