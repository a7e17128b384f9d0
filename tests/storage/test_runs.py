"""Reading from batches in memory, with and without gaps, against a plain model."""

import struct
from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.batch import read_header
from protocol.errors import CorruptBatch
from protocol.records import Record, build_batch
from storage.errors import CorruptObject
from storage.runs import Run, parse_placed, parse_run
from tests.storage.segments_made import batches_with_gaps, last_offset_of

END = 2**63 - 1


def expected_read(
    batches: list[bytes], run_end: int, offset: int, max_bytes: int, end_offset: int
) -> tuple[list[bytes], int]:
    """Return which batches a read gives, and where the next one begins."""
    taken: list[bytes] = []
    for batch in batches:
        if last_offset_of(batch) < offset:
            continue
        base_offset = read_header(batch).base_offset
        too_much = taken and sum(map(len, taken)) + len(batch) > max_bytes
        if base_offset >= end_offset or too_much:
            return taken, base_offset
        taken.append(batch)
    return taken, run_end


@given(
    batches=batches_with_gaps(),
    behind=st.integers(0, 4),
    max_bytes=st.integers(0, 600),
    data=st.data(),
)
def test_a_read_begins_with_the_batch_that_holds_the_offset_or_follows_it(
    batches: list[bytes], behind: int, max_bytes: int, data: st.DataObject
) -> None:
    start = read_header(batches[0]).base_offset if batches else 0
    end = last_offset_of(batches[-1]) + behind if batches else behind
    run = parse_placed(memoryview(b"".join(batches)), start_offset=start, end_offset=end)
    offset = data.draw(st.integers(start, end))
    # What is not wanted begins with a batch, or behind the end.
    begins = [read_header(batch).base_offset for batch in batches]
    end_offset = data.draw(st.sampled_from([*(at for at in begins if at >= offset), END]))

    taken, size, following = run.read(offset, max_bytes, end_offset)

    wanted, wanted_following = expected_read(batches, end + 1, offset, max_bytes, end_offset)
    assert [bytes(batch) for batch in taken] == wanted
    assert (size, following) == (sum(map(len, wanted)), wanted_following)
    assert following > offset or not taken


@given(batches=batches_with_gaps(), max_bytes=st.integers(0, 300))
def test_who_reads_on_gets_every_batch_once(batches: list[bytes], max_bytes: int) -> None:
    end = last_offset_of(batches[-1]) if batches else 0
    run = parse_placed(memoryview(b"".join(batches)), start_offset=0, end_offset=end)
    got: list[bytes] = []
    offset = 0
    while offset < run.end_offset:
        taken, _, offset = run.read(offset, max_bytes, END)
        got += map(bytes, taken)
    assert got == batches


def dense(counts: list[int]) -> bytearray:
    """Return batches of so many records each, as producers send them."""
    return bytearray(
        b"".join(
            build_batch([Record(offset_delta=at, value=b"v") for at in range(count)])
            for count in counts
        )
    )


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=8), data=st.data())
def test_a_dense_run_gives_the_batch_that_holds_the_offset(
    counts: list[int], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, 2**40))
    end = start + sum(counts) - 1
    run = parse_run(dense(counts), start_offset=start, end_offset=end)
    assert list(run.base_offsets) == [start + before for before in (0, *accumulate(counts))][:-1]
    assert [read_header(batch).base_offset for batch in run.batches] == list(run.base_offsets)
    offset = data.draw(st.integers(start, end))
    taken, size, following = run.read(offset, 1, END)
    at = bisect_right(run.base_offsets, offset) - 1
    assert taken == [run.batches[at]]
    assert (size, following) == (len(run.batches[at]), run.base_offsets[at] + counts[at])


def test_a_dense_run_has_exactly_the_records_that_its_row_says() -> None:
    with pytest.raises(CorruptObject, match="records up to 14, the index says 15"):
        parse_run(dense([2, 3]), start_offset=10, end_offset=15)
    damaged = dense([2])
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        parse_run(damaged, start_offset=0, end_offset=1)


@given(batches=batches_with_gaps(), cut=st.integers(1, 60))
def test_parts_of_batches_are_refused(batches: list[bytes], cut: int) -> None:
    data = b"".join([*batches, build_batch([Record(offset_delta=0)], base_offset=2**41)])
    with pytest.raises(CorruptBatch):
        parse_placed(memoryview(data)[:-cut], start_offset=0, end_offset=2**42)


def test_offsets_that_do_not_ascend_are_refused() -> None:
    def place(bases: list[int], start_offset: int = 0, end_offset: int = 9) -> Run:
        batches = [
            build_batch([Record(offset_delta=0), Record(offset_delta=1)], base_offset=base)
            for base in bases
        ]
        data = memoryview(b"".join(batches))
        return parse_placed(data, start_offset=start_offset, end_offset=end_offset)

    assert list(place([0, 2, 8]).last_offsets) == [1, 3, 9]
    for bases in ([0, 1], [2, 0], [9], [-1]):
        with pytest.raises(CorruptObject):
            place(bases)
    backwards = bytearray(build_batch([], base_offset=5))
    struct.pack_into(">i", backwards, 23, -1)
    with pytest.raises(CorruptObject):
        parse_placed(memoryview(backwards), start_offset=0, end_offset=9)
