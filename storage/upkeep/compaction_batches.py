"""What log compaction leaves of a batch; pure.

Records stay as they are, byte by byte, and keep their offsets: of a batch of which some are left,
only the payload's end, its count, its maximum timestamp and its checksum change.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import crc32c

from protocol.batch import CRC_START, HEADER, HEADER_BYTES, LENGTH_FIELD_END, BatchHeader
from protocol.compression import compress
from protocol.decompression import decompress_stored
from protocol.record_spans import RecordSpan, record_spans, timestamp_deltas
from protocol.records import build_batch
from storage.objects.port import Buffer
from storage.upkeep.compaction_keys import LatestOffsets

AT_ONCE: Final = 10_000
_CRC: Final = struct.Struct(">I")
_CRC_FIELD: Final = 17
_NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedBatch:
    """What is left of a batch.

    Attributes:
        data: the very batch if all of it is left; None if nothing is.
        records: that are left.
        has_tombstones: that may go later: null values that are the latest of their keys.
    """

    data: Buffer | None
    records: int
    has_tombstones: bool


def add_keys(batch: memoryview, header: BatchHeader, latest: LatestOffsets, offset: int) -> bool:
    """Take note of the keys of a data batch, from `offset` on, as far as there is room.

    Args:
        batch: whole.
        header: of the batch.
        latest: its `end_offset` moves to the first record that there is no room for, or to the end
            of the batch.
        offset: records before it are known already.

    Returns:
        whether there was room for all.

    Raises:
        CorruptBatch, DecompressedTooLarge, InvalidRecords, UnsupportedCompression: the records
            cannot be read; nothing was noted.
    """
    payload = decompress_stored(header.codec, batch[HEADER_BYTES:])
    base_offset, add = header.base_offset, latest.add
    for _, _, delta, key, _ in _whole_spans(payload, header):
        if key is not None and base_offset + delta >= offset and not add(key, base_offset + delta):
            latest.end_offset = base_offset + delta
            return False
    latest.end_offset = base_offset + header.last_offset_delta + 1
    return True


def clean_batch(
    batch: memoryview,
    header: BatchHeader,
    latest: LatestOffsets,
    *,
    drop_tombstones: bool,
    level: int | None,
) -> CleanedBatch:
    """Return a data batch without the records that are obsolete.

    A record goes if there is a later one with its key, if it has no key, or if it is a tombstone
    that has had its time. What lies behind the known keys stays.

    Args:
        batch: whole.
        header: of the batch.
        latest: of all keys before its end offset.
        drop_tombstones: whether null values have had their time.
        level: to compress with what is left; None is the codec's default.

    Raises:
        CorruptBatch, DecompressedTooLarge, InvalidRecords, UnsupportedCompression: the records
            cannot be read.
    """
    payload = decompress_stored(header.codec, batch[HEADER_BYTES:])
    base_offset, end_offset, latest_of = header.base_offset, latest.end_offset, latest.latest
    kept = bytearray()  # of spans: a list of them could be far larger than the payload
    kept_from, has_tombstones, records = 0, False, 0
    for start, end, delta, key, null in _spans(payload, header):
        offset = base_offset + delta
        if offset < end_offset:
            if key is None or offset < latest_of(key) or (null and drop_tombstones):
                kept += payload[kept_from:start]
                kept_from = end
                continue
            has_tombstones |= null
        records += 1
    if records == header.record_count:
        return CleanedBatch(data=batch, records=records, has_tombstones=has_tombstones)
    if not records:
        return CleanedBatch(data=None, records=0, has_tombstones=False)
    kept += payload[kept_from:]
    data = _with_payload(header, bytes(kept), records, level)
    return CleanedBatch(data=data, records=records, has_tombstones=has_tombstones)


def empty_batch(offset: int) -> bytes:
    """Return a batch without records: it tells a reader at a gap's end that the gap ends there.

    Without it, a reader that waits for the last offset of a log would wait for ever.
    """
    return build_batch([], base_offset=offset)


def _spans(payload: bytes, header: BatchHeader) -> Iterator[RecordSpan]:
    return record_spans(payload, header.record_count, header.last_offset_delta)


def _whole_spans(payload: bytes, header: BatchHeader) -> Iterable[RecordSpan]:
    """Return the spans only if all of them are well-formed."""
    if header.record_count <= AT_ONCE:
        return list(_spans(payload, header))
    for _ in _spans(payload, header):
        pass
    return _spans(payload, header)


def _with_payload(header: BatchHeader, payload: bytes, records: int, level: int | None) -> Buffer:
    """Return the batch with fewer records; it covers the same offsets."""
    max_timestamp_ms = header.max_timestamp_ms
    if not header.is_log_append_time:
        latest_ms = header.base_timestamp_ms + max(timestamp_deltas(payload, records))
        # Nobody has checked what producers wrote into records: it may be beyond the header's.
        max_timestamp_ms = max(_NO_TIMESTAMP, min(max_timestamp_ms, latest_ms))
    compressed = compress(header.codec, payload, level=level)
    changed = header._replace(
        batch_length=HEADER_BYTES - LENGTH_FIELD_END + len(compressed),
        max_timestamp_ms=max_timestamp_ms,
        record_count=records,
    )
    result = bytearray(HEADER_BYTES + len(compressed))
    HEADER.pack_into(result, 0, *changed)
    result[HEADER_BYTES:] = compressed
    _CRC.pack_into(result, _CRC_FIELD, crc32c.crc32c(memoryview(result)[CRC_START:]))
    return result
