"""The records inside a v2 batch (KIP-98, headers KIP-82), for those few who must look inside.

The payload is what follows the 61 bytes of the batch header, decompressed. A record is

    length, then in `length` bytes: attributes i8 (unused) | timestamp delta (varlong)
    | offset delta | key length, key | value length, value
    | header count, then for each: key length, key (UTF-8) | value length, value

where lengths, counts and deltas are zigzag varints of at most 5 bytes (varlong: 10), and length -1
is null for keys, values and header values. Both readers are lazy, so that a payload costs the
memory of one record at a time; only who reads to the end knows that all of it is well-formed.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import crc32c

from protocol.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    MINIMAL_RECORD_BYTES,
    BatchHeader,
)
from protocol.compression import compress
from protocol.errors import InvalidRecords

Buffer = bytes | bytearray | memoryview

MAX_HEADERS: Final = 100_000  # of one record: two bytes each on the wire, two objects each here

_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10
_CRC: Final = struct.Struct(">I")
_CRC_FIELD: Final = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record, relative to the batch that holds it.

    Attributes:
        offset_delta: its offset is the batch's base offset plus this.
        timestamp_delta_ms: its create time is the batch's base timestamp plus this.
    """

    offset_delta: int
    timestamp_delta_ms: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def decode_records(payload: Buffer, count: int, *, from_producer: bool = True) -> Iterator[Record]:
    """Yield the records of a decompressed payload.

    Args:
        payload: all of it, nothing after it.
        count: the batch header's record count.
        from_producer: offset deltas are 0, 1, 2 …; a compacted batch may have gaps between them.

    Raises:
        InvalidRecords: when iteration comes to what is wrong.
    """
    data = memoryview(payload)
    for offset_delta, timestamp_delta_ms, start, end in _starts(data, count, from_producer):
        key, at = _nullable_bytes(data, start, end)
        value, at = _nullable_bytes(data, at, end)
        headers, at = _headers(data, at, end)
        if at != end:
            raise InvalidRecords(f"{end - at} bytes are left of a record")
        yield Record(
            offset_delta=offset_delta,
            timestamp_delta_ms=timestamp_delta_ms,
            key=key,
            value=value,
            headers=headers,
        )


def scan_records(
    payload: Buffer, count: int, *, from_producer: bool = True
) -> Iterator[tuple[int, int, bool]]:
    """Yield (offset delta, timestamp delta in ms, whether it has a key) of each record.

    Like `decode_records`, without looking at what comes after the key's length.

    Raises:
        InvalidRecords: when iteration comes to what is wrong.
    """
    data = memoryview(payload)
    for offset_delta, timestamp_delta_ms, start, end in _starts(data, count, from_producer):
        length, at = _varint(data, start, end)
        if not -1 <= length <= end - at:
            raise InvalidRecords(f"key of {length} bytes")
        yield offset_delta, timestamp_delta_ms, length >= 0


def _starts(
    data: memoryview, count: int, from_producer: bool
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (offset delta, timestamp delta, where the key's length begins, end) of each record."""
    if not 0 <= count * MINIMAL_RECORD_BYTES <= len(data):
        raise InvalidRecords(f"{len(data)} bytes cannot hold {count} records")
    at, last = 0, -1
    for _ in range(count):
        length, start = _varint(data, at, len(data))
        if not MINIMAL_RECORD_BYTES - 1 <= length <= len(data) - start:
            raise InvalidRecords(f"record of {length} bytes, {len(data) - start} are left")
        end = start + length
        timestamp_delta_ms, at = _varint(data, start + 1, end, _VARLONG_BYTES)
        offset_delta, at = _varint(data, at, end)
        if offset_delta <= last or (from_producer and offset_delta != last + 1):
            raise InvalidRecords(f"offset delta {offset_delta} after {last}")
        yield offset_delta, timestamp_delta_ms, at, end
        at, last = end, offset_delta
    if at != len(data):
        raise InvalidRecords(f"{len(data) - at} bytes after {count} records")


def _headers(
    data: memoryview, at: int, end: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = _varint(data, at, end)
    if not count:
        return (), at
    if not 0 <= count <= min(MAX_HEADERS, (end - at) // 2):
        raise InvalidRecords(f"{count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, at = _nullable_bytes(data, at, end)
        value, at = _nullable_bytes(data, at, end)
        if key is None:
            raise InvalidRecords("header without a key")
        try:
            headers.append((key.decode(), value))
        except UnicodeDecodeError as error:
            raise InvalidRecords("header key is not UTF-8") from error
    return tuple(headers), at


def _nullable_bytes(data: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at, end)
    if length == -1:
        return None, at
    if not 0 <= length <= end - at:
        raise InvalidRecords(f"{length} bytes, {end - at} are left of the record")
    return bytes(data[at : at + length]), at + length


def _varint(data: memoryview, at: int, end: int, most: int = _VARINT_BYTES) -> tuple[int, int]:
    """Return a zigzag varint of at most `most` bytes that ends before `end`, and where it ends."""
    value = shift = 0
    for position in range(at, min(at + most, end)):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> (32 if most == _VARINT_BYTES else 64):
                break
            return value >> 1 ^ -(value & 1), position + 1
        shift += 7
    raise InvalidRecords("a varint does not end, or is too large")


def encode_records(records: Iterable[Record]) -> bytes:
    """Return the payload that holds `records`, not compressed."""
    payload = bytearray()
    for record in records:
        body = bytearray(1)
        _put_varint(body, record.timestamp_delta_ms)
        _put_varint(body, record.offset_delta)
        _put_bytes(body, record.key)
        _put_bytes(body, record.value)
        _put_varint(body, len(record.headers))
        for key, value in record.headers:
            _put_bytes(body, key.encode())
            _put_bytes(body, value)
        _put_bytes(payload, body)
    return bytes(payload)


def _put_bytes(target: bytearray, value: Buffer | None) -> None:
    _put_varint(target, -1 if value is None else len(value))
    if value is not None:
        target += value


def _put_varint(target: bytearray, value: int) -> None:
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    while zigzag >= 0x80:
        target.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    target.append(zigzag)


def build_batch(
    records: Sequence[Record],
    *,
    attributes: int = 0,
    base_offset: int = 0,
    base_timestamp_ms: int = 0,
    max_timestamp_ms: int | None = None,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Return a whole v2 batch.

    Args:
        records: relative to `base_offset` and `base_timestamp_ms`; none if all were compacted away.
        attributes: bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 base timestamp
            is the delete horizon (KIP-534).
        base_offset: 0 in what a producer sends.
        base_timestamp_ms: usually the first record's.
        max_timestamp_ms: the records' latest, unless given.
        last_offset_delta: the last record's, unless given; compaction keeps the original one.
        leader_epoch: -1 in what a producer sends.
        producer_id: of an idempotent producer; then the next two count from 0.
        producer_epoch: of that producer.
        base_sequence: of the first record.
    """
    if not records:
        attributes &= ~CODEC_MASK  # there is nothing to decompress
    deltas_ms = [record.timestamp_delta_ms for record in records]
    if max_timestamp_ms is None:
        max_timestamp_ms = base_timestamp_ms + max(deltas_ms) if deltas_ms else -1
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset_delta if records else 0
    payload = compress(attributes & CODEC_MASK, encode_records(records))
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_BYTES - LENGTH_FIELD_END + len(payload),
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    batch = bytearray(HEADER.pack(*header) + payload)
    _CRC.pack_into(batch, _CRC_FIELD, crc32c.crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)
