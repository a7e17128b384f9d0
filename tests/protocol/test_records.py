"""Records inside batches: ours, those of stock clients, and what is no record at all."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.batch import (
    HEADER_BYTES,
    MINIMAL_RECORD_BYTES,
    BatchHeader,
    batch_extents,
    read_header,
    verify_produced,
)
from protocol.compression import Codec
from protocol.decompression import decompress
from protocol.errors import InvalidRecords
from protocol.records import (
    MAX_HEADERS,
    Record,
    build_batch,
    decode_records,
    encode_records,
    scan_records,
)

CAPTURED = Path(__file__).parent / "captured"
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
FIRST_TIMESTAMP_MS = 1_700_000_000_000

nullable_bytes = st.none() | st.binary(max_size=200)
records = st.builds(
    Record,
    offset_delta=st.just(0),
    timestamp_delta_ms=st.integers(-(2**63), 2**63 - 1),
    key=nullable_bytes,
    value=nullable_bytes,
    headers=st.lists(st.tuples(st.text(max_size=20), nullable_bytes), max_size=4).map(tuple),
)


def numbered(drawn: list[Record], deltas: list[int]) -> list[Record]:
    return [
        Record(
            offset_delta=delta,
            timestamp_delta_ms=record.timestamp_delta_ms,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        for record, delta in zip(drawn, deltas, strict=False)
    ]


def captured(name: str) -> list[tuple[BatchHeader, list[Record]]]:
    """Return the batches of a file, their checksums verified."""
    data = memoryview((CAPTURED / f"{name}.batches").read_bytes())
    batches = []
    for start, size, _ in batch_extents(data):
        header = read_header(data, start)
        payload = decompress(header.codec, data[start + HEADER_BYTES : start + size])
        batches.append((header, list(decode_records(payload, header.record_count))))
    return batches


def expected(number: int, timestamp_delta_ms: int) -> Record:
    """Return what captured/README.md says about record `number`."""
    key = None if number % 7 == 0 else f"key-{number}".encode()
    value = None if number % 11 == 0 and key else (f"value-{number} é " * 50).encode()
    trace = (("source", b"capture"), ("trace", str(number).encode()))
    return Record(
        offset_delta=number,
        timestamp_delta_ms=timestamp_delta_ms,
        key=key,
        value=value,
        headers=() if number % 3 == 0 else trace,
    )


@pytest.mark.parametrize("client", ["java", "librdkafka", "aiokafka"])
@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_what_stock_clients_sent_is_read(client: str, codec: Codec) -> None:
    # Given the one batch that a client sent
    ((header, found),) = captured(f"{client}-{codec.name.lower()}")
    assert header.codec == codec

    # Then every record is as it was produced
    assert len(found) == (12 if codec == Codec.NONE else 100)
    for number, record in enumerate(found):
        delta_ms = record.timestamp_delta_ms if client == "java" else 10 * number
        assert record == expected(number, delta_ms)
    if client != "java":
        assert header.base_timestamp_ms == FIRST_TIMESTAMP_MS
    latest_ms = max(record.timestamp_delta_ms for record in found)
    assert header.base_timestamp_ms + latest_ms == header.max_timestamp_ms


@pytest.mark.parametrize("client", ["java", "librdkafka", "aiokafka"])
def test_our_encoding_is_what_clients_send_byte_for_byte(client: str) -> None:
    ((header, found),) = captured(f"{client}-none")
    made = build_batch(
        found,
        attributes=header.attributes,
        base_offset=header.base_offset,
        base_timestamp_ms=header.base_timestamp_ms,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    assert made == (CAPTURED / f"{client}-none.batches").read_bytes()


def test_control_batches_hold_a_version_and_a_type_as_key() -> None:
    batches = captured("librdkafka-transactional")
    assert [header.is_control for header, _ in batches] == [False, True] * 4
    assert all(header.is_transactional for header, _ in batches)
    markers = [found[0].key for header, found in batches if header.is_control]
    assert markers == [b"\0\0\0\1", b"\0\0\0\0"] * 2  # version 0; 1 is commit, 0 is abort


@unhurried
@given(drawn=st.lists(records, min_size=1, max_size=20), data=st.data())
def test_what_was_encoded_is_decoded(drawn: list[Record], data: st.DataObject) -> None:
    deltas = sorted(data.draw(st.sets(st.integers(0, 2**31 - 1), min_size=20, max_size=20)))
    dense = numbered(drawn, list(range(20)))
    sparse = numbered(drawn, deltas)

    assert list(decode_records(encode_records(dense), len(drawn))) == dense
    payload = encode_records(sparse)
    assert list(decode_records(payload, len(drawn), from_producer=False)) == sparse
    assert list(scan_records(payload, len(drawn), from_producer=False)) == [
        (record.offset_delta, record.timestamp_delta_ms, record.key is not None)
        for record in sparse
    ]


@unhurried
@given(
    drawn=st.lists(records, min_size=1, max_size=5),
    codec=st.sampled_from(Codec),
    bits=st.sampled_from([0, 0x08, 0x10, 0x48]),
    base_offset=st.integers(0, 2**63 - 1),
)
def test_a_built_batch_is_intact(
    drawn: list[Record], codec: Codec, bits: int, base_offset: int
) -> None:
    drawn = numbered(drawn, list(range(5)))
    batch = build_batch(
        drawn, attributes=codec | bits, base_offset=base_offset, max_timestamp_ms=7, leader_epoch=3
    )
    assert list(batch_extents(memoryview(batch))) == [(0, len(batch), len(drawn))]
    header = read_header(batch)
    assert (header.codec, header.base_offset, header.leader_epoch) == (codec, base_offset, 3)
    payload = decompress(header.codec, batch[HEADER_BYTES:])
    assert list(decode_records(payload, header.record_count)) == drawn


def test_a_producers_batch_is_accepted_and_an_empty_one_keeps_its_offsets() -> None:
    produced = build_batch([Record(offset_delta=0, value=b"v")], base_timestamp_ms=5)
    assert verify_produced(memoryview(produced)).max_timestamp_ms == 5
    smallest = build_batch([Record(offset_delta=at) for at in range(64)])
    assert len(smallest) == HEADER_BYTES + 64 * MINIMAL_RECORD_BYTES
    assert verify_produced(memoryview(smallest)).record_count == 64

    emptied = read_header(build_batch([], attributes=Codec.ZSTD, last_offset_delta=9))
    assert (emptied.record_count, emptied.last_offset_delta, emptied.codec) == (0, 9, Codec.NONE)


@pytest.mark.parametrize(
    ("payload", "count", "named"),
    [
        ("", 1, "cannot hold 1 records"),
        ("0c000000010100", 2, "cannot hold 2 records"),
        ("0c000000010100", -1, "cannot hold -1 records"),
        ("0c000000010100", 0, "7 bytes after 0 records"),
        ("0c000000010100 00", 1, "1 bytes after 1 records"),
        ("0a000000010100", 1, "record of 5 bytes"),
        ("0e000000010100", 1, "record of 7 bytes, 6 are left"),
        ("01000000010100", 1, "record of -1 bytes"),
        ("ffffffffff7f00", 1, "varint does not end"),
        ("feffffff7f0000", 1, "too large"),
        ("0e00000001010000", 1, "1 bytes are left"),
        ("0c000002010100", 1, "offset delta 1 after -1"),
        ("0c000001010100", 1, "offset delta -1 after -1"),
        ("0c000000010100 0c000000010100", 2, "offset delta 0 after 0"),
        ("0c000000010100 0c000004010100", 2, "offset delta 2 after 0"),
        ("0c000000030100", 1, "-2 bytes"),
        ("0c000000080100", 1, "4 bytes, 2 are left"),
        ("0c000000010300", 1, "-2 bytes"),
        ("0c000000010101", 1, "-1 headers"),
        ("0c000000010102", 1, "1 headers"),
        ("10000000010102 0101", 1, "header without a key"),
        ("12000000010102 02ff01", 1, "not UTF-8"),
        ("10000000010102 0002", 1, "1 bytes, 0 are left"),
        ("0e000000010180 01", 1, "64 headers"),
        ("20 00 ffffffffffffffffff03 00 010100 00", 1, "too large"),
    ],
)
def test_what_contradicts_itself_is_invalid(payload: str, count: int, named: str) -> None:
    with pytest.raises(InvalidRecords, match=named):
        list(decode_records(bytes.fromhex(payload), count))


def test_offset_deltas_grow_even_in_a_compacted_batch() -> None:
    sparse = encode_records([Record(offset_delta=4), Record(offset_delta=7)])
    assert len(list(scan_records(sparse, 2, from_producer=False))) == 2
    falling = encode_records([Record(offset_delta=4), Record(offset_delta=4)])
    with pytest.raises(InvalidRecords, match="4 after 4"):
        list(scan_records(falling, 2, from_producer=False))


def test_one_record_has_a_hundred_thousand_headers_at_most() -> None:
    most = Record(offset_delta=0, headers=(("", b""),) * MAX_HEADERS)
    assert list(decode_records(encode_records([most]), 1)) == [most]
    over = Record(offset_delta=0, headers=(("", b""),) * (MAX_HEADERS + 1))
    with pytest.raises(InvalidRecords, match="100001 headers"):
        list(decode_records(encode_records([over]), 1))


def read_to_the_end(payload: bytes, count: int, *, from_producer: bool) -> list[Record] | None:
    try:
        return list(decode_records(payload, count, from_producer=from_producer))
    except InvalidRecords:
        return None


@unhurried
@given(
    payload=st.binary(max_size=100)
    | st.lists(st.sampled_from([0, 0, 1, 2, 0x0C, 0x0E, 0x80, 0xFF]), max_size=60).map(bytes),
    count=st.integers(-1, 20),
    from_producer=st.booleans(),
)
def test_garbage_is_invalid_or_records(payload: bytes, count: int, from_producer: bool) -> None:
    found = read_to_the_end(payload, count, from_producer=from_producer)
    if found is not None:
        assert len(found) == count
        again = encode_records(found)
        assert list(decode_records(again, count, from_producer=from_producer)) == found


@unhurried
@given(drawn=st.lists(records, min_size=1, max_size=5), data=st.data())
def test_damaged_records_are_invalid_or_others(drawn: list[Record], data: st.DataObject) -> None:
    payload = bytearray(encode_records(numbered(drawn, list(range(5)))))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    found: Any = read_to_the_end(bytes(payload), len(drawn), from_producer=True)
    assert found is None or len(found) == len(drawn)
    cut = bytes(payload[: data.draw(st.integers(0, len(payload) - 1))])
    assert read_to_the_end(cut, len(drawn), from_producer=True) is None
