"""Payloads of record batches (KIP-98) for many records at once, by numpy and Arrow.

A record is what protocol/records.py says:

    length | attributes, 0 | timestamp delta | offset delta | key length || key
    || value length || value || header count | headers

The pieces between `||` are arrays of bytes; Arrow joins them row by row, into one buffer that is
the payload of all batches, one behind the other. Lengths and deltas are zigzag varints.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

MOST_OVERHEAD: Final = 36
"""Bytes of a record beside key, value and headers: lengths, deltas and an attribute byte."""

_MOST_VARINT_BYTES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Records side by side.

    Attributes:
        keys, values: binary; null is null.
        headers: list of (key, value); None if no record has any.
        timestamps_ms: of each.
    """

    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None
    timestamps_ms: Longs

    def __len__(self) -> int:
        return len(self.values)

    def take(self, order: Longs) -> "Rows":
        """Return these records in another order."""
        places = pa.array(order)
        return Rows(
            keys=self.keys.take(places),
            values=self.values.take(places),
            headers=None if self.headers is None else self.headers.take(places),
            timestamps_ms=self.timestamps_ms[order],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """What `encode` returns.

    Attributes:
        data: of all records.
        offsets: where each record begins in it, and where the last one ends.
    """

    data: memoryview
    offsets: Longs


def buffer_of(array: pa.Array) -> tuple[Bytes, Longs]:
    """Return the bytes below a binary array, and where each value begins; one more for the end."""
    if len(array) == 0:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    return (np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)), places


def header_blocks(headers: pa.Array | None) -> pa.Array | None:
    """Return how the headers of each record are written, their count first; None if none has any.

    Raises:
        ValueError: a header has no key.
    """
    if headers is None:
        return None
    counts = lengths_of(pc.list_value_length(headers))
    if not counts.any():
        return None
    keys, values = headers.flatten().flatten()
    keys, values = keys.cast(pa.binary()), values.cast(pa.binary())
    if keys.null_count:
        raise ValueError("a header has no key; Kafka takes none without")
    joined = _join(_varints(_sizes(keys)), keys, _varints(_sizes(values)), values)
    _, places = buffer_of(joined)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    of_records = [None, pa.py_buffer(places[ends].astype(np.int32)), joined.buffers()[2]]
    entries = pa.Array.from_buffers(pa.binary(), len(headers), of_records)
    return _join(_varints(counts), entries)


def record_bounds(rows: Rows, headers: pa.Array | None) -> Longs:
    """Return how many bytes each record has at most."""
    bounds = np.maximum(_sizes(rows.keys), 0) + np.maximum(_sizes(rows.values), 0)
    if headers is not None:
        bounds += np.diff(buffer_of(headers)[1])
    return bounds + MOST_OVERHEAD


def cut(bounds: Longs, runs: Sequence[tuple[int, int]], limits: Sequence[int]) -> Longs:
    """Return where batches begin: where a run does, and wherever a limit would be passed else.

    Args:
        bounds: bytes of each record, at most.
        runs: first record of each, and one past the last; they are one behind the other.
        limits: of the payload of each run's batches; a record that is larger has one for itself.
    """
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(bounds)))
    firsts: list[int] = []
    for (start, end), limit in zip(runs, limits, strict=True):
        at = start
        while at < end:
            firsts.append(at)
            at = max(at + 1, int(np.searchsorted(sums, sums[at] + limit, "right")) - 1)
    return np.array(firsts, np.int64)


def encode(rows: Rows, headers: pa.Array | None, firsts: Longs) -> Payloads:
    """Write all records.

    Args:
        rows: as they are in their batches, batch after batch.
        headers: of `header_blocks`.
        firsts: number of the first record of each batch.
    """
    counts = np.diff(np.append(firsts, len(rows)))
    first_of = np.repeat(firsts, counts)
    deltas_ms = rows.timestamps_ms - rows.timestamps_ms[first_of]
    offset_deltas = np.arange(len(rows), dtype=np.int64) - first_of
    key_sizes, value_sizes = _sizes(rows.keys), _sizes(rows.values)
    fields = (deltas_ms, offset_deltas, key_sizes, value_sizes)
    sizes = sum((_varint_sizes(_zigzag(field)) for field in fields), np.ones(len(rows), np.int64))
    sizes += np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
    sizes += 1 if headers is None else np.diff(buffer_of(headers)[1])
    attributes = np.zeros(len(rows), np.int64)
    joined = _join(
        _varints(sizes, attributes, deltas_ms, offset_deltas, key_sizes),
        *(rows.keys, _varints(value_sizes), rows.values),
        _constant(b"\x00") if headers is None else headers,
    )
    _, places = buffer_of(joined)
    data = memoryview(joined.buffers()[2]).cast("B")  # Arrow's bytes are signed, a store's are not
    return Payloads(data=data, offsets=places)


def lengths_of(lengths: pa.Array) -> Longs:
    """Return lengths that Arrow has counted; 0 for null."""
    counted: Longs = pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return counted


def _sizes(values: pa.Array) -> Longs:
    """Return how many bytes each value has; -1 for null."""
    sizes = np.diff(buffer_of(values)[1])
    if values.null_count:
        sizes[pc.is_null(values).to_numpy(zero_copy_only=False)] = -1
    return sizes


def _join(*pieces: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, _constant(b""), null_handling="replace")


@cache
def _constant(value: bytes) -> pa.Scalar:
    """Made when it is needed: the first one imports pandas, which a driver can do without."""
    return pa.scalar(value, pa.binary())


def _zigzag(numbers: Longs) -> Unsigned:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _varint_sizes(numbers: Unsigned) -> Longs:
    sizes = np.ones(len(numbers), np.int64)
    for count in range(1, _MOST_VARINT_BYTES):
        more = numbers >= np.uint64(1 << 7 * count)
        if not more.any():
            break
        sizes += more
    return sizes


def _varints(*columns: Longs) -> pa.Array:
    """Return the numbers of each row as varints, one behind the other."""
    numbers = [_zigzag(column) for column in columns]
    sizes = [_varint_sizes(number) for number in numbers]
    widths = [int(size.max()) for size in sizes]
    row_count, width = len(columns[0]), sum(widths)
    matrix = np.empty((row_count, width), np.uint8)
    used = np.ones((row_count, width), np.bool_)
    at = 0
    for number, size, most in zip(numbers, sizes, widths, strict=True):
        for place in range(most):
            matrix[:, at + place] = (number >> np.uint64(7 * place)) & np.uint64(0x7F)
            if place + 1 < most:
                matrix[:, at + place] |= (size > place + 1).astype(np.uint8) << 7
            if place:
                used[:, at + place] = size > place
        at += most
    ends = np.cumsum(sum(sizes, np.zeros(row_count, np.int64)))
    places = np.concatenate((np.zeros(1, np.int64), ends)).astype(np.int32)
    data = matrix.reshape(-1) if used.all() else matrix[used]
    buffers = [None, pa.py_buffer(places), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), row_count, buffers)
