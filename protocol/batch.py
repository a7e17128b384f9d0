"""The v2 record batch (KIP-98): verified and given its offset without a look at its records.

Layout, big-endian; the CRC covers everything from `attributes` on, so the base offset and the
leader epoch are set without touching it:

    0 base_offset i64 | 8 batch_length i32 (bytes after this field) | 12 leader_epoch i32
    16 magic i8 | 17 crc u32 (CRC-32C of bytes 21..) | 21 attributes i16 | 23 last_offset_delta i32
    27 base_timestamp i64 | 35 max_timestamp i64 | 43 producer_id i64 | 51 producer_epoch i16
    53 base_sequence i32 | 57 record_count i32 | 61 records
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import crc32c

from protocol.decompression import MAX_DECOMPRESSED_BYTES
from protocol.errors import CorruptBatch, InvalidRecords

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LENGTH_FIELD_END: Final = 12
CRC_START: Final = 21
MAGIC: Final = 2
MINIMAL_RECORD_BYTES: Final = 7
NO_PRODUCER_ID: Final = -1

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

_BASE_OFFSET: Final = struct.Struct(">q")
_MAGIC_AT: Final = 16
_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_EXTENT: Final = struct.Struct(">qi")
_PLACED_EXTENT: Final = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_MAX_TIMESTAMP: Final = struct.Struct(">q")


class BatchHeader(NamedTuple):
    """The header's fields, in wire order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_FIELD_END


def read_header(data: memoryview | bytearray | bytes, start: int = 0) -> BatchHeader:
    """Return the header of the batch that begins at byte `start`.

    Raises:
        CorruptBatch: fewer bytes are there than a header has.
    """
    if len(data) - start < HEADER_BYTES:
        raise CorruptBatch(f"{len(data) - start} bytes are no record batch header")
    return BatchHeader._make(HEADER.unpack_from(data, start))


def verify_produced(data: memoryview) -> BatchHeader:
    """Check what a producer sent for one partition: exactly one intact v2 batch of data records.

    Raises:
        CorruptBatch: it is no batch, or its checksum does not match (code 2).
        InvalidRecords: anything else that must not reach the log (code 87).
    """
    header = _read_produced(data)
    if crc32c.crc32c(data[CRC_START:]) != header.crc:
        raise CorruptBatch("checksum of the record batch does not match")
    if header.is_control:
        raise InvalidRecords("clients do not write control batches")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        count, last = header.record_count, header.last_offset_delta
        raise InvalidRecords(f"{count} records cannot end at offset delta {last}")
    # Each takes an offset: a client that claims what it never sent must not use them up.
    room = header.batch_length + LENGTH_FIELD_END - HEADER_BYTES
    if header.attributes & CODEC_MASK:
        room = MAX_DECOMPRESSED_BYTES  # what a compressed batch holds is not looked into here
    if header.record_count * MINIMAL_RECORD_BYTES > room:
        raise InvalidRecords(f"{room} bytes cannot hold {header.record_count} records")
    if header.producer_id != NO_PRODUCER_ID and (
        header.producer_id < 0 or header.base_sequence < 0 or header.producer_epoch < 0
    ):
        raise InvalidRecords("an idempotent producer has an id, and numbers its batches from 0")
    return header


def _read_produced(data: memoryview) -> BatchHeader:
    """Return the header if the bytes are one v2 batch as long as it says, placed nowhere yet."""
    if len(data) < HEADER_BYTES:
        raise InvalidRecords(f"{len(data)} bytes are no whole record batch")
    header = read_header(data)
    if not 0 <= header.magic <= MAGIC:
        raise CorruptBatch(f"there is no record format {header.magic}")
    if header.magic != MAGIC:  # 0 and 1 ended with Kafka 4.0 (KIP-724)
        raise InvalidRecords(f"record format {header.magic} is not supported, only {MAGIC}")
    size = header.size
    if size < HEADER_BYTES:
        raise CorruptBatch(f"a batch of {size} bytes has no header")
    if size != len(data):
        raise InvalidRecords(
            f"a partition takes exactly one whole record batch per request: {len(data)} bytes came,"
            f" {size} are said"
        )
    if header.base_offset != 0:
        raise InvalidRecords(f"a producer's batch has base offset 0, not {header.base_offset}")
    return header


def says_transactional(batch: memoryview | bytes) -> bool:
    """Return whether bytes that nobody has verified yet say to be a batch of a transaction."""
    if len(batch) < HEADER_BYTES or batch[_MAGIC_AT] != MAGIC:
        return False
    return bool(_ATTRIBUTES.unpack_from(batch, CRC_START)[0] & TRANSACTIONAL_BIT)


def set_base_offset(batch: memoryview | bytearray, offset: int, start: int = 0) -> None:
    """Give the batch at byte `start` its place in the log."""
    _BASE_OFFSET.pack_into(batch, start, offset)


def set_leader_epoch(batch: memoryview | bytearray, epoch: int) -> None:
    """Note the leader epoch that the batch was appended in (KIP-101)."""
    _EPOCH.pack_into(batch, LENGTH_FIELD_END, epoch)


def stamp_log_append_time(batch: memoryview | bytearray, now_ms: int) -> None:
    """Make `now_ms` the timestamp of all records (KIP-32): readers take it from the header."""
    attributes = _ATTRIBUTES.unpack_from(batch, CRC_START)[0] | TIMESTAMP_TYPE_BIT
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes)
    set_max_timestamp(batch, now_ms)


def stamp_create_time(batch: memoryview | bytearray) -> None:
    """Let each record have the timestamp that its producer gave it (KIP-32)."""
    attributes = _ATTRIBUTES.unpack_from(batch, CRC_START)[0] & ~TIMESTAMP_TYPE_BIT
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes)
    _set_checksum(batch)


def set_max_timestamp(batch: memoryview | bytearray, max_timestamp_ms: int) -> None:
    """Say in the header which timestamp is the largest of the records."""
    _MAX_TIMESTAMP.pack_into(batch, 35, max_timestamp_ms)
    _set_checksum(batch)


def batch_extents(data: memoryview) -> Iterator[tuple[int, int, int]]:
    """Yield (start byte, size in bytes, record offsets taken) of each batch of a run, in order.

    Raises:
        CorruptBatch: the bytes are not whole, intact v2 batches back to back.
    """
    start, end = 0, len(data)
    while start < end:
        if end - start < HEADER_BYTES:
            raise CorruptBatch(f"{end - start} bytes after the last whole batch")
        size = _EXTENT.unpack_from(data, start)[1] + LENGTH_FIELD_END
        if data[start + 16] != MAGIC or not HEADER_BYTES <= size <= end - start:
            raise CorruptBatch(f"no record batch at byte {start}")
        crc = _CRC.unpack_from(data, start + 17)[0]
        if crc32c.crc32c(data[start + CRC_START : start + size]) != crc:
            raise CorruptBatch(f"checksum of the batch at byte {start} does not match")
        yield start, size, _LAST_OFFSET_DELTA.unpack_from(data, start + 23)[0] + 1
        start += size


def placed_extents(data: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start byte, size in bytes, base offset, last offset) of each batch, in order.

    The checksums of the batches are not looked at.

    Raises:
        CorruptBatch: the bytes are not whole v2 batches back to back.
    """
    start, end = 0, len(data)
    while start < end:
        if end - start < HEADER_BYTES:
            raise CorruptBatch(f"{end - start} bytes after the last whole batch")
        base_offset, length, magic, last_offset_delta = _PLACED_EXTENT.unpack_from(data, start)
        size = length + LENGTH_FIELD_END
        if magic != MAGIC or not HEADER_BYTES <= size <= end - start:
            raise CorruptBatch(f"no record batch at byte {start}")
        yield start, size, base_offset, base_offset + last_offset_delta
        start += size


def _set_checksum(batch: memoryview | bytearray) -> None:
    _CRC.pack_into(batch, 17, crc32c.crc32c(memoryview(batch)[CRC_START:]))
