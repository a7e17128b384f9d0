"""The schema ids of a batch are those that its keys and values begin with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidRecords
from protocol.record_spans import field_spans
from protocol.records import Record, build_batch, decode_records, encode_records
from protocol.schema_ids import MAX_IDS, schema_ids

TEXTS = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=60, max_size=300))
IDS = st.integers(-(2**31), 2**31 - 1)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    return [
        Record(
            offset_delta=delta,
            timestamp_delta_ms=draw(st.integers(-(2**63), 2**63 - 1)),
            key=draw(TEXTS),
            value=draw(TEXTS),
            headers=tuple(draw(st.lists(st.tuples(st.text(max_size=9), TEXTS), max_size=2))),
        )
        for delta in range(draw(st.integers(0, 300 if draw(st.booleans()) else 4)))
    ]


def with_schema(schema_id: int, data: bytes = b"") -> bytes:
    return b"\0" + schema_id.to_bytes(4, signed=True) + data


@given(made=records())
def test_fields_lie_where_the_slow_reader_finds_them(made: list[Record]) -> None:
    payload = encode_records(made)
    found = [
        (
            None if key_length < 0 else payload[key_at : key_at + key_length],
            None if value_length < 0 else payload[value_at : value_at + value_length],
        )
        for key_at, key_length, value_at, value_length in field_spans(payload, len(made))
    ]
    assert found == [(one.key, one.value) for one in made]


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
        spans = list(field_spans(bytes(payload), count))
    except InvalidRecords:
        with pytest.raises(InvalidRecords):
            list(decode_records(payload, count, from_producer=False))
        return
    assert len(spans) == count
    at = 0
    for key_at, key_length, value_at, value_length in spans:
        assert at < key_at < value_at
        at = max(key_at + key_length, value_at + value_length)
        assert at < len(payload)


@given(
    keys=st.lists(st.none() | IDS, min_size=1, max_size=9),
    values=st.lists(st.none() | IDS, min_size=9, max_size=9),
    codec=st.integers(0, 4),
)
def test_ids_are_read_from_keys_and_values_of_any_codec(
    keys: list[int | None], values: list[int | None], codec: int
) -> None:
    pairs = list(zip(keys, values, strict=False))
    batch = build_batch(
        [
            Record(
                offset_delta=at,
                key=None if key is None else with_schema(key, b"k" * at),
                value=None if value is None else with_schema(value),
            )
            for at, (key, value) in enumerate(pairs)
        ],
        attributes=codec,
    )
    found = schema_ids(memoryview(batch), of_keys=True, of_values=True)
    assert found.keys == {key for key, _ in pairs} - {None}
    assert found.values == {value for _, value in pairs} - {None}
    assert not schema_ids(memoryview(batch), of_keys=False, of_values=True).keys


@pytest.mark.parametrize("of_keys", [False, True])
def test_a_batch_of_too_many_schemas_is_refused_as_soon_as_that_is_seen(of_keys: bool) -> None:
    # Given batches of as many schemas as may be, each twice, and of one more before a broken record
    most = [with_schema(schema_id) for schema_id in range(MAX_IDS)]
    whole, more = 2 * most, [*most, with_schema(-1), b"broken"]

    def batch(fields: list[bytes]) -> memoryview:
        records = [
            Record(offset_delta=at, key=one, value=None)
            if of_keys
            else Record(offset_delta=at, key=None, value=one)
            for at, one in enumerate(fields)
        ]
        return memoryview(build_batch(records))

    # Then the one is read, and the other one refused
    found = schema_ids(batch(whole), of_keys=True, of_values=True)
    assert (found.keys if of_keys else found.values) == set(range(MAX_IDS))
    with pytest.raises(InvalidRecords, match="more than 100 schemas"):
        schema_ids(batch(more), of_keys=True, of_values=True)


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0", b"\1\0\0\0\1x", b'{"a": 1}'])
def test_what_does_not_begin_with_an_id_is_refused_where_one_is_asked_for(data: bytes) -> None:
    good = Record(offset_delta=0, key=with_schema(1), value=with_schema(1))
    batch = memoryview(build_batch([good, Record(offset_delta=1, key=with_schema(1), value=data)]))
    assert schema_ids(batch, of_keys=True, of_values=False).keys == {1}
    with pytest.raises(InvalidRecords, match="value does not begin with the id of a schema"):
        schema_ids(batch, of_keys=False, of_values=True)
