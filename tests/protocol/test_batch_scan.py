"""Finding records by time, also in compacted batches: with gaps, or without any record."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.batch import HEADER_BYTES, TIMESTAMP_TYPE_BIT
from protocol.batch_scan import (
    NAMED_BYTES,
    FoundTimestamp,
    find_first_at_or_after,
    find_max_timestamp,
    largest_timestamp,
    records_without_key,
)
from protocol.compression import Codec
from protocol.errors import InvalidRecords
from protocol.records import Record, build_batch
from tests.fuzz.batches import with_payload


@st.composite
def batches_and_records(draw: st.DrawFn) -> tuple[list[memoryview], list[FoundTimestamp]]:
    """Draw batches, and what they hold: (offset, timestamp) of each record."""
    offset = draw(st.integers(0, 1000))
    batches, held = [], []
    for _ in range(draw(st.integers(0, 6))):
        offset += draw(st.integers(0, 3))
        deltas = sorted(draw(st.sets(st.integers(0, 9), max_size=4)))
        base_ms = draw(st.integers(0, 50))
        records = [
            Record(offset_delta=delta, timestamp_delta_ms=draw(st.integers(0, 9)))
            for delta in deltas
        ]
        append_time = draw(st.booleans())
        batch = build_batch(
            records,
            attributes=draw(st.integers(0, 4)) | (TIMESTAMP_TYPE_BIT if append_time else 0),
            base_offset=offset,
            base_timestamp_ms=base_ms,
            last_offset_delta=9,
        )
        times = [base_ms + record.timestamp_delta_ms for record in records]
        held += [
            FoundTimestamp(offset + record.offset_delta, max(times) if append_time else one)
            for record, one in zip(records, times, strict=True)
        ]
        batches.append(memoryview(batch))
        offset += 10
    return batches, held


@given(drawn=batches_and_records(), timestamp_ms=st.integers(0, 60), start=st.integers(0, 1100))
def test_the_first_record_at_or_after_a_time_is_found(
    drawn: tuple[list[memoryview], list[FoundTimestamp]], timestamp_ms: int, start: int
) -> None:
    batches, held = drawn
    found = find_first_at_or_after(batches, timestamp_ms, start)
    matching = [one for one in held if one.timestamp_ms >= timestamp_ms and one.offset >= start]
    assert found == (matching[0] if matching else None)


@given(drawn=batches_and_records(), start=st.integers(0, 1100))
@example(  # the latest record of all lies before the start, in the batch that has it
    drawn=(
        [
            memoryview(
                build_batch(
                    [Record(offset_delta=0, timestamp_delta_ms=ms), Record(offset_delta=1)],
                    base_offset=at,
                )
            )
            for at, ms in ((0, 9), (2, 5))
        ],
        [FoundTimestamp(at, ms) for at, ms in ((0, 9), (1, 0), (2, 5), (3, 0))],
    ),
    start=1,
)
def test_the_first_of_the_latest_records_is_found(
    drawn: tuple[list[memoryview], list[FoundTimestamp]], start: int
) -> None:
    batches, held = drawn
    kept = [one for one in held if one.offset >= start]
    latest = max((one.timestamp_ms for one in kept), default=None)
    expected = next((one for one in kept if one.timestamp_ms == latest), None)
    assert find_max_timestamp(batches, start) == expected


@pytest.mark.parametrize(
    ("base_ms", "delta_ms", "expected_ms"),
    [(9, 2**63 - 1, 9), (9, 10, 9), (9, -3, 6), (-(2**63), -(2**63), -(2**63))],
)
def test_a_record_is_no_later_than_its_batch_and_its_time_has_64_bits(
    base_ms: int, delta_ms: int, expected_ms: int
) -> None:
    record = Record(offset_delta=0, timestamp_delta_ms=delta_ms)
    batch = memoryview(build_batch([record], base_timestamp_ms=base_ms, max_timestamp_ms=9))
    found = FoundTimestamp(0, expected_ms)
    assert find_max_timestamp([batch]) == found
    assert find_first_at_or_after([batch], expected_ms) == found


@pytest.mark.parametrize(
    ("base_ms", "deltas_ms", "expected_ms"),
    [
        (9, (0, 7, 3), 16),
        (9, (-3, -5), 6),
        (9, (2**63 - 1,), 2**63 - 1),
        (-(2**62), (-(2**63),), -(2**63)),
    ],
)
def test_the_largest_timestamp_is_of_the_records_and_has_64_bits(
    base_ms: int, deltas_ms: tuple[int, ...], expected_ms: int
) -> None:
    records = [
        Record(offset_delta=at, timestamp_delta_ms=delta) for at, delta in enumerate(deltas_ms)
    ]
    for codec in Codec:
        batch = build_batch(
            records, attributes=codec, base_timestamp_ms=base_ms, max_timestamp_ms=-1
        )
        assert largest_timestamp(memoryview(batch)) == expected_ms


def test_an_empty_batch_is_no_answer_whatever_its_header_says() -> None:
    empty = memoryview(build_batch([], max_timestamp_ms=99, last_offset_delta=4))
    one = Record(offset_delta=0, timestamp_delta_ms=1)
    filled = memoryview(build_batch([one], base_offset=5))
    assert find_first_at_or_after([empty, filled], 1) == FoundTimestamp(5, 1)
    assert find_max_timestamp([empty, filled]) == FoundTimestamp(5, 1)
    assert find_max_timestamp([empty]) is None
    assert find_max_timestamp([]) is None


@pytest.mark.parametrize("start_offset", [0, 7])
def test_records_that_cannot_be_read_are_as_their_header_says(start_offset: int) -> None:
    # Given a batch whose last records cannot be read, before a batch of earlier ones
    records = [Record(offset_delta=delta, timestamp_delta_ms=delta) for delta in range(4)]
    whole = build_batch(records, base_offset=5, max_timestamp_ms=9)
    spoilt = memoryview(with_payload(whole, whole[HEADER_BYTES:-4] + bytes(4)))
    later = memoryview(build_batch([Record(offset_delta=0, timestamp_delta_ms=4)], base_offset=9))

    # When a time is looked for that none of those before has, then its header answers
    found = FoundTimestamp(max(start_offset, 5), 9)
    assert find_first_at_or_after([spoilt, later], 4, start_offset) == found
    assert find_max_timestamp([spoilt, later], start_offset) == found

    # And one that can be read is found as ever
    assert find_first_at_or_after([spoilt, later], 1, 5) == FoundTimestamp(6, 1)
    assert find_first_at_or_after([spoilt, later], 4, 9) == FoundTimestamp(9, 4)


@pytest.mark.parametrize(("start_offset", "expected"), [(0, 5), (6, 15), (16, None)])
def test_batches_before_the_start_offset_do_not_count(
    start_offset: int, expected: int | None
) -> None:
    batches = [
        memoryview(
            build_batch([Record(offset_delta=0, timestamp_delta_ms=time_ms)], base_offset=at)
        )
        for at, time_ms in ((5, 50), (15, 40))
    ]
    found = find_max_timestamp(batches, start_offset)
    assert (None if found is None else found.offset) == expected


@pytest.mark.parametrize("deltas", [(1,), (0, 2), (0, 1000)])
def test_a_producers_records_are_numbered_without_a_gap_to_the_end_of_their_batch(
    deltas: tuple[int, ...],
) -> None:
    records = [Record(offset_delta=delta, key=b"key") for delta in deltas]
    batch = memoryview(build_batch(records, last_offset_delta=len(deltas) - 1))
    with pytest.raises(InvalidRecords, match="offset delta"):
        records_without_key(batch)


@pytest.mark.parametrize("value", [b"", b"of a usual size" * 4])
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_records_without_key_are_named_unless_the_answer_would_be_larger_than_the_batch(
    count: int, value: bytes
) -> None:
    # Given a batch in which each other record has a key, and the last ones do, too
    keys = [None, b"key"] * count + [b"key"] * 3
    records = [Record(offset_delta=at, key=key, value=value) for at, key in enumerate(keys)]
    batch = memoryview(build_batch(records))

    # When it is looked through
    found, places = records_without_key(batch)

    # Then all of those without are counted, and named if the answer has room for them
    assert found == count
    fits = count * NAMED_BYTES <= len(batch)
    assert fits == bool(value or count < 1000)
    assert list(places) == (list(range(0, 2 * count, 2)) if fits else [])
