"""Records of batches as Arrow columns, many at a time: no record becomes an object of Python.

Payloads of some batches lie back to back in one buffer. Once it is known where each record begins
(spark/sources/record_starts.py), every field of all of them is read at once. Keys and values are
elements of one array over the buffer, with what is between them as elements, too; `take` copies
those that are wanted.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.errors import InvalidRecords
from spark.sources.cut import Range
from spark.sources.record_chunks import MAX_ROWS, Chunk, Payload, chunked
from spark.sources.record_fields import read_fields
from spark.sources.record_headers import HEADERS_TYPE, read_headers
from spark.sources.record_starts import PADDING_BYTES
from spark.sources.varints import Bytes, Numbers, Places

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

_US_PER_MS: Final = 1000
_MAX_MS: Final = (2**63 - 1) // _US_PER_MS
_HALF: Final = 2**62 - 1
"""Two such numbers have a sum."""
_CREATE_TIME: Final = 0
_LOG_APPEND_TIME: Final = 1


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
        for chunk in chunked(data, view, payloads):
            if batch := self._columns(view, buffer, chunk):
                yield batch

    def _columns(self, data: Bytes, buffer: pa.Buffer, chunk: Chunk) -> pa.RecordBatch | None:
        fields = read_fields(data, chunk)
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

    def _timestamp_types(self, chunk: Chunk, keep: Places | None, rows: int) -> pa.Array:
        kinds = [
            _CREATE_TIME if payload.append_time_ms is None else _LOG_APPEND_TIME
            for payload in chunk.payloads
        ]
        if not any(kinds):
            return self._create_time.slice(0, rows)
        spread = chunk.spread(kinds)
        return pa.array((spread if keep is None else spread[keep]).astype(np.int32))


def _offsets(chunk: Chunk, deltas: Numbers) -> Numbers:
    offsets = chunk.spread([payload.base_offset for payload in chunk.payloads]) + deltas
    ascend = (np.diff(offsets) > 0).all()
    if not ascend or deltas.min() < 0 or offsets[-1] > chunk.payloads[-1].last_offset:
        raise InvalidRecords("the offsets of records do not ascend within their batch")
    return offsets


def _timestamps(chunk: Chunk, deltas_ms: Numbers) -> Numbers:
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
