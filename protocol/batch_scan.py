"""Questions about a batch that only its records answer; asked off the event loop.

Decompression is bounded (protocol/compression.py). Where the broker's clock set the timestamps
(LogAppendTime, KIP-32), all records of a batch have its maximum timestamp. Batches of compacted
segments may have gaps between their offsets, or no record at all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from protocol.batch import HEADER_BYTES, BatchHeader, read_header
from protocol.compression import decompress
from protocol.records import scan_records


@dataclass(frozen=True, slots=True)
class FoundTimestamp:
    """A record that was looked for by time."""

    offset: int
    timestamp_ms: int


def has_null_key(batch: memoryview) -> bool:
    """Return whether any record lacks a key; all records are looked through.

    Raises:
        CorruptBatch, DecompressedTooLarge, InvalidRecords: the records cannot be read.
    """
    keys = [has_key for _, _, has_key in _scan(batch, read_header(batch))]  # to the last record
    return not all(keys)


def find_first_at_or_after(
    batches: Sequence[memoryview], timestamp_ms: int, start_offset: int = 0
) -> FoundTimestamp | None:
    """Return the first record from `start_offset` on whose timestamp is >= `timestamp_ms`.

    Raises:
        CorruptBatch, DecompressedTooLarge, InvalidRecords: a batch in question cannot be read.
    """
    for batch in batches:
        header = read_header(batch)
        if header.max_timestamp_ms < timestamp_ms or not _reaches(header, start_offset):
            continue
        for found in _timestamps(batch, header):
            if found.timestamp_ms >= timestamp_ms and found.offset >= start_offset:
                return found
    return None


def find_max_timestamp(
    batches: Sequence[memoryview], start_offset: int = 0
) -> FoundTimestamp | None:
    """Return the first record that has the largest timestamp (KIP-734); None if there is none.

    Args:
        batches: of one run.
        start_offset: records before it do not count.

    Raises:
        CorruptBatch, DecompressedTooLarge, InvalidRecords: the batch that has it cannot be read.
    """
    headers = [read_header(batch) for batch in batches]
    asked = [at for at, header in enumerate(headers) if _reaches(header, start_offset)]
    if not asked:
        return None
    latest = max(asked, key=lambda at: headers[at].max_timestamp_ms)
    found = [
        one for one in _timestamps(batches[latest], headers[latest]) if one.offset >= start_offset
    ]
    return max(found, key=lambda one: one.timestamp_ms, default=None)  # the first of equals


def _reaches(header: BatchHeader, start_offset: int) -> bool:
    """Return whether a batch can have a record from `start_offset` on; compacted ones are empty."""
    return header.record_count > 0 and header.base_offset + header.last_offset_delta >= start_offset


def _timestamps(batch: memoryview, header: BatchHeader) -> Iterator[FoundTimestamp]:
    for offset_delta, timestamp_delta_ms, _ in _scan(batch, header):
        timestamp_ms = header.base_timestamp_ms + timestamp_delta_ms
        if header.is_log_append_time:
            timestamp_ms = header.max_timestamp_ms
        yield FoundTimestamp(header.base_offset + offset_delta, timestamp_ms)


def _scan(batch: memoryview, header: BatchHeader) -> Iterator[tuple[int, int, bool]]:
    payload = decompress(header.codec, batch[HEADER_BYTES:])
    return scan_records(payload, header.record_count, from_producer=False)
