"""What storage/metadata/segments.py promises, asked of every metadata store: rows that are
replaced.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from protocol.ids import Partition
from storage.metadata.port import SegmentLookup
from storage.segment_entry import SegmentEntry
from tests.contracts.metadata_stores import EVERYTHING, KINDS, a_batch, reserved
from tests.contracts.segment_side import Segments, a_swap, open_segments, row_of


@pytest.fixture(params=KINDS)
async def segments(request: pytest.FixtureRequest) -> AsyncIterator[Segments]:
    """Each store in turn, empty."""
    async with open_segments(request.param) as opened:
        yield opened


async def test_a_built_segment_takes_the_place_of_rows(segments: Segments) -> None:
    # Given four objects of a partition, and one of another
    partition, other = await segments.partitions(2)
    written = [await segments.write(partition, timestamp_ms=time) for time in (5, 30, 10, 20)]
    kept = await segments.write(other)
    offsets = await segments.store.partition_offsets([partition, other])

    # When the first three become a segment, of which the latest record is gone
    swap = await segments.swap(partition, written[:3], timestamp_ms=10)
    assert (await segments.states())[swap.path] == "pending"
    assert await segments.store.replace_segments(swap)

    # Then one row is there in their place, wherever one looks
    built = row_of(swap)
    assert await segments.rows(partition) == [built, written[3]]
    for offset in (0, 15, 29):
        lookup = SegmentLookup(partition=partition, offset=offset, max_bytes=EVERYTHING)
        assert await segments.store.find_segments([lookup]) == [[built, written[3]]]
    assert await segments.store.find_timestamp(partition, 10) == built
    assert await segments.store.find_timestamp(partition, 11) == written[3]
    assert await segments.store.find_max_timestamp(partition) == written[3]

    # And no offset has moved, and only what no row names is doomed
    assert await segments.store.partition_offsets([partition, other]) == offsets
    states = await segments.states()
    assert {row.path: states[row.path] for row in written[:3]} == {
        row.path: "doomed" for row in written[:3]
    }
    assert {states[path] for path in (swap.path, written[3].path, kept.path)} == {"live"}
    assert await segments.rows(other) == [kept]


async def test_a_swap_that_is_repeated_has_the_first_answer(segments: Segments) -> None:
    # Given a swap that was done, and one that was not, because its rows are gone
    (partition,) = await segments.partitions(1)
    row = await segments.write(partition)
    first = await segments.swap(partition, [row])
    second = await segments.swap(partition, [row])
    assert await segments.store.replace_segments(first)
    assert not await segments.store.replace_segments(second)

    # When both are repeated, then nothing changes
    states = await segments.states()
    assert (states[first.path], states[second.path]) == ("live", "doomed")
    for _ in range(2):
        assert await segments.store.replace_segments(first)
        assert not await segments.store.replace_segments(second)
    assert await segments.states() == states
    assert await segments.rows(partition) == [row_of(first)]

    # And the first is no longer live once it was replaced itself
    third = await segments.swap(partition, [row_of(first)])
    assert await segments.store.replace_segments(third)
    assert not await segments.store.replace_segments(first)
    assert await segments.rows(partition) == [row_of(third)]


async def test_rows_that_are_not_what_was_read_stay(segments: Segments) -> None:
    # Given three rows, and what somebody read of other times
    (partition,) = await segments.partitions(1)
    rows = [await segments.write(partition) for _ in range(3)]
    of_another_object = replace(rows[1], path=rows[2].path)
    longer = replace(rows[1], end_offset=rows[2].end_offset)
    shorter = replace(rows[1], end_offset=18)
    not_yet_there = replace(rows[2], start_offset=30, end_offset=39)

    # When they are to be replaced, then nothing happens, and the upload is given up
    for read in (
        [rows[0], of_another_object, rows[2]],
        [of_another_object],
        [rows[0], longer],
        [longer],
        [rows[0], shorter],
        [*rows, not_yet_there],
        [not_yet_there],
    ):
        swap = await segments.swap(partition, read)
        assert not await segments.store.replace_segments(swap)
        assert await segments.rows(partition) == rows
        assert (await segments.states())[swap.path] == "doomed"
    assert {(await segments.states())[row.path] for row in rows} == {"live"}


async def test_an_object_goes_with_its_last_row(segments: Segments) -> None:
    # Given an object with runs of two partitions, one of them in two pieces
    first, second = await segments.partitions(2)
    path = await reserved(segments.store)
    batches = [a_batch(first, 0), a_batch(first, 150), a_batch(second, 250)]
    await segments.store.commit_object(path, 350, batches)
    pieces = await segments.rows(first)
    assert len(pieces) == 2

    # When one row after the other is replaced, then the object is doomed with the last one
    remaining = [(first, pieces[:1]), (first, pieces[1:]), (second, await segments.rows(second))]
    for partition, replaced in remaining:
        assert (await segments.states())[path] == "live"
        assert await segments.store.replace_segments(await segments.swap(partition, replaced))
    assert (await segments.states())[path] == "doomed"


async def test_a_commit_is_answered_again_when_its_object_is_doomed(segments: Segments) -> None:
    # Given a commit whose rows were replaced before its answer arrived
    (partition,) = await segments.partitions(1)
    path = await reserved(segments.store)
    answer = await segments.store.commit_object(path, 100, [a_batch(partition, 0)])
    built = await segments.build(partition)
    assert (await segments.states())[path] == "doomed"

    # When it is repeated, then it is told what happened, and nothing happens
    assert await segments.store.commit_object(path, 100, [a_batch(partition, 0)]) == answer
    assert await segments.rows(partition) == [built]


async def test_only_a_reserved_path_is_swapped_in(segments: Segments) -> None:
    # Given a row, a segment that was given up, and one that was never reserved
    (partition,) = await segments.partitions(1)
    row = await segments.write(partition)
    abandoned = await segments.swap(partition, [row])
    assert await segments.store.doom_abandoned(0, 10) == 1
    strange = a_swap(partition, "topics/t/partitions/0/segments/strange.seg", [row])

    # When they are swapped in, then nothing happens
    for swap in (abandoned, strange):
        assert not await segments.store.replace_segments(swap)
    assert await segments.rows(partition) == [row]
    assert (await segments.states())[row.path] == "live"


async def test_rows_before_the_log_start_are_not_replaced(segments: Segments) -> None:
    # Given three rows and a log that has come to begin in the third
    (partition,) = await segments.partitions(1)
    rows = [await segments.write(partition) for _ in range(3)]
    early = await segments.swap(partition, rows[:2])
    later = await segments.swap(partition, rows[2:])
    await segments.store.delete_records({partition: 22})

    # When a segment is to hold the first two, then it does not; one of the third does
    assert not await segments.store.replace_segments(early)
    assert (await segments.states())[early.path] == "doomed"
    assert await segments.store.replace_segments(later)
    assert await segments.store.segments_from(partition, 22, 9) == [row_of(later)]
    assert await segments.log_start(partition) == 22


async def test_rows_of_a_deleted_topic_are_not_replaced(segments: Segments) -> None:
    # Given a swap that is late
    (partition,) = await segments.partitions(1)
    row = await segments.write(partition)
    swap = await segments.swap(partition, [row])
    await segments.store.delete_topic(partition.topic_id)

    # When it comes, then its upload is given up, and there is nothing to be found
    assert not await segments.store.replace_segments(swap)
    assert (await segments.states())[swap.path] == "doomed"
    assert await segments.rows(partition) == []
    assert await segments.store.segments_before(partition, 10, 9) == []
    assert await segments.store.reserve_segment(partition, 0, 9) is None


async def test_rows_are_listed_from_and_before_an_offset(segments: Segments) -> None:
    # Given five rows and a log that begins in the second
    (partition,) = await segments.partitions(1)
    rows: list[SegmentEntry] = [await segments.write(partition) for _ in range(5)]
    await segments.store.delete_records({partition: 15})
    store = segments.store

    # Then rows that end at an offset or later are listed from there on
    for offset, expected in ((15, rows[1:]), (19, rows[1:]), (20, rows[2:]), (50, [])):
        assert await store.segments_from(partition, offset, 9) == expected
        assert await store.segments_from(partition, offset, 2) == expected[:2]

    # And those that lie before one backwards, to where the log begins
    for offset, expected in ((50, rows[4:0:-1]), (40, rows[3:0:-1]), (20, [rows[1]]), (15, [])):
        assert await store.segments_before(partition, offset, 9) == expected
        assert await store.segments_before(partition, offset, 2) == expected[:2]

    # And those of partitions that do not exist are none
    missing = Partition(partition.topic_id, 7)
    assert await store.segments_from(missing, 0, 9) == []
    assert await store.segments_before(missing, 99, 9) == []
