"""The fast scan says of each record what the slow reader says, and refuses what is no record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidRecords
from protocol.record_spans import record_spans, timestamp_deltas
from protocol.records import Record, decode_records, encode_records

TEXTS = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=60, max_size=300))


MOST = 2**31 - 1


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    deltas = sorted(draw(st.sets(st.integers(0, MOST), max_size=8)))
    return [
        Record(
            offset_delta=delta,
            timestamp_delta_ms=draw(st.integers(-(2**63), 2**63 - 1)),
            key=draw(TEXTS),
            value=draw(TEXTS),
            headers=tuple(draw(st.lists(st.tuples(st.text(max_size=9), TEXTS), max_size=2))),
        )
        for delta in deltas
    ]


@given(made=records())
def test_spans_are_those_of_the_records(made: list[Record]) -> None:
    payload = encode_records(made)
    spans = list(record_spans(payload, len(made), MOST))
    assert [(delta, key, null) for _, _, delta, key, null in spans] == [
        (one.offset_delta, one.key, one.value is None) for one in made
    ]
    assert [payload[start:end] for start, end, *_ in spans] == [
        encode_records([one]) for one in made
    ]
    assert list(timestamp_deltas(payload, len(made))) == [one.timestamp_delta_ms for one in made]


@given(made=records(), data=st.data())
def test_damaged_payloads_are_refused_or_read_within_their_bytes(
    made: list[Record], data: st.DataObject
) -> None:
    payload = bytearray(encode_records(made))
    for _ in range(data.draw(st.integers(0, 3))):
        if payload:
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    del payload[data.draw(st.integers(0, len(payload))) :]
    payload += data.draw(st.binary(max_size=12))
    count = data.draw(st.integers(-1, len(made) + 2))
    try:
        spans = list(record_spans(bytes(payload), count, MOST))
    except InvalidRecords:
        with pytest.raises(InvalidRecords):
            list(decode_records(payload, count, from_producer=False))
        return
    assert len(spans) == count
    ends = [0, *(end for _, end, *_ in spans)]
    assert [start for start, *_ in spans] == ends[:-1]
    assert ends[-1] == len(payload)
    try:
        decoded = list(decode_records(payload, count, from_producer=False))
    except InvalidRecords:
        return  # what the fast scan does not look at: headers, and the length of a timestamp
    assert [(one.offset_delta, one.key, one.value is None) for one in decoded] == [
        (delta, key, null) for _, _, delta, key, null in spans
    ]


def test_a_varint_of_more_bytes_than_it_needs_is_read() -> None:
    # length 8, attributes, timestamp 0, offset 0 (two bytes), null key, null value (two bytes)
    payload = bytes([16, 0, 0, 0x80, 0, 1, 0x81, 0, 0])
    assert list(record_spans(payload, 1, MOST)) == [(0, 9, 0, None, True)]
    with pytest.raises(InvalidRecords):
        list(record_spans(bytes([0x80] * 12), 1, MOST))


def test_a_record_behind_the_end_of_its_batch_is_refused() -> None:
    payload = encode_records([Record(offset_delta=delta) for delta in (0, 5)])
    assert [delta for _, _, delta, _, _ in record_spans(payload, 2, 5)] == [0, 5]
    with pytest.raises(InvalidRecords, match="no record at byte 7"):
        list(record_spans(payload, 2, 4))
