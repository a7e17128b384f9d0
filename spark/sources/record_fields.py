"""The fields that every record has, of many records at once; headers: record_headers.py."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.batch import MINIMAL_RECORD_BYTES
from protocol.errors import InvalidRecords
from spark.sources.record_chunks import Chunk
from spark.sources.varints import VARLONG_BYTES, Bytes, Numbers, Places, read_varints


@dataclass(frozen=True, slots=True)
class Fields:
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


def read_fields(data: Bytes, chunk: Chunk) -> Fields:
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
    return Fields(
        timestamp_deltas_ms,
        offset_deltas,
        key_starts,
        key_lengths,
        value_starts,
        value_lengths,
        value_ends,
    )
