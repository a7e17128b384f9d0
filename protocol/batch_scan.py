"""Questions about a batch that only its records answer; asked off the event loop.

Decompression is bounded (protocol/decompression.py). Where the broker's clock set the timestamps
(LogAppendTime, KIP-32), all records of a batch have its maximum timestamp. Batches of compacted
segments may have gaps between their offsets, or no record at all. Not all batches are looked into
when they come: where records are looked for by time, those that cannot be read are as their header
says, so that one producer's garbage hides nobody else's records.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from protocol.batch import HEADER_BYTES, BatchHeader, read_header
from protocol.decompression import decompress, decompress_stored
from protocol.errors import CorruptBatch, DecompressedTooLarge, InvalidRecords
from protocol.records import scan_records

NAMED_BYTES: Final = 64
"""What an answer has of a record that it names, with its message, at most. All that it names of a
batch are no more bytes than the batch, which may hold millions of records compressed."""

_LEAST_TIMESTAMP_MS: Final = -(2**63)
_MOST_TIMESTAMP_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FoundTimestamp:
    """A record that was looked for by time."""

    offset: int
    timestamp_ms: int


def records_without_key(batch: memoryview) -> tuple[int, Sequence[int]]:
    """Return how many records of a producer's batch have no key, and their places in it, from 0 on.

    No place is named if there are too many of them: clients take all others for good ones.

    Raises:
        CorruptBatch, DecompressedTooLarge, InvalidRecords: the records cannot be read, or are not
            numbered 0, 1, 2 …
    """
    most_named = len(batch) // NAMED_BYTES
    count, places = 0, []
    scanned = _scan(batch, read_header(batch), from_producer=True)
    for place, (_, _, has_key) in enumerate(scanned):  # to the last one
        if not has_key:
            count += 1
            if count <= most_named:
                places.append(place)
    return count, places if count <= most_named else ()


def largest_timestamp(batch: memoryview) -> int:
    """Return the largest timestamp of a producer's records, whatever the header says that it is.

    Raises:
        CorruptBatch, DecompressedTooLarge, InvalidRecords: as of `records_without_key`.
    """
    header = read_header(batch)
    delta_ms = max(delta for _, delta, _ in _scan(batch, header, from_producer=True))
    return max(min(header.base_timestamp_ms + delta_ms, _MOST_TIMESTAMP_MS), _LEAST_TIMESTAMP_MS)


def find_first_at_or_after(
    batches: Sequence[memoryview], timestamp_ms: int, start_offset: int = 0
) -> FoundTimestamp | None:
    """Return the first record from `start_offset` on whose timestamp is >= `timestamp_ms`."""
    for batch in batches:
        header = read_header(batch)
        if header.max_timestamp_ms < timestamp_ms or not _reaches(header, start_offset):
            continue
        for found in _timestamps(batch, header, start_offset):
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
    """
    headers = [(read_header(batch), batch) for batch in batches]
    asked = [pair for pair in headers if _reaches(pair[0], start_offset)]
    asked.sort(key=lambda pair: pair[0].max_timestamp_ms, reverse=True)  # in order where equal
    latest: FoundTimestamp | None = None
    for header, batch in asked:  # one is enough, unless its latest records are before the start
        if not may_be_later(header.max_timestamp_ms, header.base_offset, latest):
            continue
        for found in _timestamps(batch, header, start_offset):
            is_later = may_be_later(found.timestamp_ms, found.offset, latest)
            if is_later and found.offset >= start_offset:
                latest = found
    return latest


def may_be_later(max_timestamp_ms: int, first_offset: int, than: FoundTimestamp | None) -> bool:
    """Return whether records of that maximum, from that offset on, may come before one found."""
    return than is None or (max_timestamp_ms, -first_offset) > (than.timestamp_ms, -than.offset)


def _reaches(header: BatchHeader, start_offset: int) -> bool:
    """Return whether a batch can have a record from `start_offset` on; compacted ones are empty."""
    return header.record_count > 0 and header.base_offset + header.last_offset_delta >= start_offset


def _timestamps(
    batch: memoryview, header: BatchHeader, start_offset: int
) -> Iterator[FoundTimestamp]:
    """Yield each record; what a producer wrote into one that is beyond its batch is cut off.

    If not all of them can be read, the last one is what the header says of all from the start on.
    """
    try:
        for offset_delta, timestamp_delta_ms, _ in _scan(batch, header, from_producer=False):
            timestamp_ms = header.base_timestamp_ms + timestamp_delta_ms
            if header.is_log_append_time:
                timestamp_ms = header.max_timestamp_ms
            timestamp_ms = max(min(timestamp_ms, header.max_timestamp_ms), _LEAST_TIMESTAMP_MS)
            yield FoundTimestamp(header.base_offset + offset_delta, timestamp_ms)
    except (CorruptBatch, DecompressedTooLarge, InvalidRecords):
        first_offset = max(header.base_offset, start_offset)
        yield FoundTimestamp(first_offset, header.max_timestamp_ms)


def _scan(
    batch: memoryview, header: BatchHeader, *, from_producer: bool
) -> Iterator[tuple[int, int, bool]]:
    undo = decompress if from_producer else decompress_stored
    payload = undo(header.codec, batch[HEADER_BYTES:])
    return scan_records(payload, header.record_count, from_producer=from_producer)
