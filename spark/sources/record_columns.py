"""Records of batches as Arrow columns, many at a time: no record becomes an object of Python.

Payloads of some batches lie back to back in one buffer. Once it is known where each record begins
(spark/sources/record_starts.py), every field of all of them is read at once. Keys and values are
elements of one array over the buffer, with what is between them as elements, too; `take` copies
those that are wanted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.errors import InvalidRecords
from protocol.records import MINIMAL_RECORD_BYTES
from spark.sources.cut import Range
from spark.sources.record_headers import HEADERS_TYPE, read_headers
from spark.sources.record_starts import PADDING_BYTES, find_starts
from spark.sources.varints import VARLONG_BYTES, Bytes, Numbers, Places, read_varints

SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS: Final = SCHEMA.append(pa.field("headers", HEADERS_TYPE))

MAX_ROWS: Final = 32_768
"""Of one batch of columns: small enough for the arrays of a step to stay in the cache."""

_US_PER_MS: Final = 1000
_MAX_MS: Final = (2**63 - 1) // _US_PER_MS
_HALF: Final = 2**62 - 1
"""Two such numbers have a sum."""
_CREATE_TIME: Final = 0
_LOG_APPEND_TIME: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The records of one batch, decompressed.

    Attributes:
        count: of records.
        base_offset, last_offset: of the batch.
        append_time_ms: of all records, if the broker's clock set it (KIP-32); None: each has its
            own, a difference from base_timestamp_ms.
    """

    data: bytes | memoryview
    count: int
    base_offset: int
    last_offset: int
    base_timestamp_ms: int
    append_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Up to MAX_ROWS records of neighbouring payloads.

    Attributes:
        starts, ends: of each record in the buffer.
        payloads: that they are of, and how many are of each.
    """

    starts: Places
    ends: Places
    payloads: Sequence[Payload]
    counts: Numbers

    def spread(self, numbers: Sequence[int]) -> Numbers:
        """Return what is said of each payload for each record."""
        if len(numbers) == 1:
            return np.full(len(self.starts), numbers[0], np.int64)
        return np.repeat(np.array(numbers, np.int64), self.counts)


class RecordColumns:
    """Makes the columns of one partition's records."""

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        offsets: Range,
        timestamps_ms: tuple[int | None, int | None] = (None, None),
        include_headers: bool = False,
    ) -> None:
        """Say whose records come, and which of them are wanted.

        Args:
            topic: of all records.
            partition: of all records.
            offsets: others are left out.
            timestamps_ms: first one wanted, and one past the last; None: no limit.
            include_headers: with SCHEMA_WITH_HEADERS.
        """
        self._offsets = offsets
        self._timestamps_ms = timestamps_ms
        self._include_headers = include_headers
        self._schema = SCHEMA_WITH_HEADERS if include_headers else SCHEMA
        self._topics = pa.array([topic], pa.string()).take(pa.array(np.zeros(MAX_ROWS, np.int32)))
        self._partitions = pa.array(np.full(MAX_ROWS, partition, np.int32))
        self._create_time = pa.array(np.full(MAX_ROWS, _CREATE_TIME, np.int32))

    def decode(self, payloads: Sequence[Payload]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted records of payloads, in order, at most MAX_ROWS at a time.

        Raises:
            InvalidRecords: they are not what their batches promise.
        """
        data = b"".join([*(payload.data for payload in payloads), bytes(PADDING_BYTES)])
        view = np.frombuffer(data, np.uint8)
        buffer = pa.py_buffer(data)
        for chunk in _chunks(data, view, payloads):
            if batch := self._columns(view, buffer, chunk):
                yield batch

    def _columns(self, data: Bytes, buffer: pa.Buffer, chunk: _Chunk) -> pa.RecordBatch | None:
        fields = _read_fields(data, chunk)
        offsets = _offsets(chunk, fields.offset_deltas)
        timestamps_ms = _timestamps(chunk, fields.timestamp_deltas_ms)
        keep = self._wanted(offsets, timestamps_ms)
        if keep is not None:
            offsets, timestamps_ms = offsets[keep], timestamps_ms[keep]
        rows = len(offsets)
        if rows == 0:
            return None
        pieces, key_at, value_at = fields.pieces(buffer, keep)
        columns = [
            pieces.take(key_at),
            pieces.take(value_at),
            self._topics.slice(0, rows),
            self._partitions.slice(0, rows),
            pa.array(offsets),
            pa.array(timestamps_ms * _US_PER_MS).view(SCHEMA.field("timestamp").type),
            self._timestamp_types(chunk, keep, rows),
        ]
        if self._include_headers:
            columns.append(read_headers(data, buffer, fields.value_ends, chunk.ends, keep))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _wanted(self, offsets: Numbers, timestamps_ms: Numbers) -> Places | None:
        """Return which records are wanted; None if all are."""
        start, end = self._offsets.start, self._offsets.end
        first_ms, end_ms = self._timestamps_ms
        limits: list[NDArray[np.bool_]] = []
        if offsets[0] < start or offsets[-1] >= end:
            limits.append((offsets >= start) & (offsets < end))
        if first_ms is not None:
            limits.append(timestamps_ms >= first_ms)
        if end_ms is not None:
            limits.append(timestamps_ms < end_ms)
        return np.flatnonzero(np.logical_and.reduce(limits)) if limits else None

    def _timestamp_types(self, chunk: _Chunk, keep: Places | None, rows: int) -> pa.Array:
        kinds = [
            _CREATE_TIME if payload.append_time_ms is None else _LOG_APPEND_TIME
            for payload in chunk.payloads
        ]
        if not any(kinds):
            return self._create_time.slice(0, rows)
        spread = chunk.spread(kinds)
        return pa.array((spread if keep is None else spread[keep]).astype(np.int32))


@dataclass(frozen=True, slots=True)
class _Fields:
    """What records say, an element for each; a length of -1 is null."""

    timestamp_deltas_ms: Numbers
    offset_deltas: Numbers
    key_starts: Places
    key_lengths: Numbers
    value_starts: Places
    value_lengths: Numbers
    value_ends: Places

    def pieces(
        self, buffer: pa.Buffer, keep: Places | None
    ) -> tuple[pa.BinaryArray, pa.Array, pa.Array]:
        """Return an array over the buffer, and which of its elements are keys and values.

        Element 4 i is the key of record i, element 4 i + 2 its value.
        """
        count = len(self.key_starts)
        edges = np.empty((count, 4), np.int32)
        edges[:, 0] = self.key_starts
        edges[:, 1] = self.key_starts + np.maximum(self.key_lengths, 0)
        edges[:, 2] = self.value_starts
        edges[:, 3] = self.value_ends
        places = pa.py_buffer(edges)
        pieces = pa.BinaryArray.from_buffers(pa.binary(), 4 * count - 1, [None, places, buffer])
        records = np.arange(count) if keep is None else keep
        return (
            pieces,
            _or_null(4 * records, self.key_lengths[records] < 0),
            _or_null(4 * records + 2, self.value_lengths[records] < 0),
        )


def _or_null(indexes: Places, are_null: NDArray[np.bool_]) -> pa.Array:
    return pa.array(indexes, mask=are_null) if are_null.any() else pa.array(indexes)


def _chunks(data: bytes, view: Bytes, payloads: Sequence[Payload]) -> Iterator[_Chunk]:
    """Yield the records of all payloads, which lie back to back in `data`."""
    for payload in payloads:
        if not 0 <= payload.count * MINIMAL_RECORD_BYTES <= len(payload.data):
            raise InvalidRecords(f"{len(payload.data)} bytes cannot hold {payload.count} records")
    ends = np.cumsum([0, *(len(payload.data) for payload in payloads)])
    firsts = np.cumsum([0, *(payload.count for payload in payloads)])  # records before each
    total = int(firsts[-1])
    starts = find_starts(data, view, int(ends[-1]), total)
    if (starts[firsts] != ends).any():
        raise InvalidRecords("records do not end where their batch does")
    for first in range(0, total, MAX_ROWS):
        last = min(first + MAX_ROWS, total)
        of = int(firsts.searchsorted(first, "right")) - 1
        after = int(firsts.searchsorted(last))
        yield _Chunk(
            starts[first:last],
            starts[first + 1 : last + 1],
            payloads[of:after],
            np.diff(firsts[of : after + 1].clip(first, last)),
        )


def _read_fields(data: Bytes, chunk: _Chunk) -> _Fields:
    """Read all that has a place in every record.

    Every place is behind the one before it; so if the last is within its record, all are.
    """
    lengths, at = read_varints(data, chunk.starts)
    if lengths.min() < MINIMAL_RECORD_BYTES - 1:
        raise InvalidRecords(f"record of {lengths.min()} bytes")
    timestamp_deltas_ms, at = read_varints(data, at + 1, VARLONG_BYTES)
    offset_deltas, at = read_varints(data, at)
    key_lengths, key_starts = read_varints(data, at)
    value_lengths, value_starts = read_varints(data, key_starts + np.maximum(key_lengths, 0))
    value_ends = value_starts + np.maximum(value_lengths, 0)
    if min(key_lengths.min(), value_lengths.min()) < -1 or (value_ends >= chunk.ends).any():
        raise InvalidRecords("a key or a value reaches behind its record")
    return _Fields(
        timestamp_deltas_ms,
        offset_deltas,
        key_starts,
        key_lengths,
        value_starts,
        value_lengths,
        value_ends,
    )


def _offsets(chunk: _Chunk, deltas: Numbers) -> Numbers:
    offsets = chunk.spread([payload.base_offset for payload in chunk.payloads]) + deltas
    ascend = (np.diff(offsets) > 0).all()
    if not ascend or deltas.min() < 0 or offsets[-1] > chunk.payloads[-1].last_offset:
        raise InvalidRecords("the offsets of records do not ascend within their batch")
    return offsets


def _timestamps(chunk: _Chunk, deltas_ms: Numbers) -> Numbers:
    """Return the timestamp of each record in ms; one that Spark cannot have is its nearest."""
    base = chunk.spread(
        [
            payload.base_timestamp_ms if payload.append_time_ms is None else payload.append_time_ms
            for payload in chunk.payloads
        ]
    )
    if all(payload.append_time_ms is not None for payload in chunk.payloads):
        timestamps = base
    elif all(payload.append_time_ms is None for payload in chunk.payloads):
        timestamps = _sum(base, deltas_ms)
    else:
        own = chunk.spread([payload.append_time_ms is None for payload in chunk.payloads])
        timestamps = _sum(base, deltas_ms * own)
    if timestamps.max() > _MAX_MS or timestamps.min() < -_MAX_MS:
        return timestamps.clip(-_MAX_MS, _MAX_MS)
    return timestamps


def _sum(numbers: Numbers, others: Numbers) -> Numbers:
    total: Numbers = numbers.clip(-_HALF, _HALF) + others.clip(-_HALF, _HALF)
    return total
