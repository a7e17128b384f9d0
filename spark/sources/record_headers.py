"""Headers of records as one Arrow column (KIP-82): one header of each record in a step."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.errors import InvalidRecords
from protocol.records import MAX_HEADERS
from spark.sources.varints import Bytes, Numbers, Places, read_varints

HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def read_headers(
    data: Bytes, buffer: pa.Buffer, at: Places, ends: Places, keep: Places | None
) -> pa.ListArray:
    """Return the headers of records; null where there are none, as format("kafka") has it.

    Args:
        data: that `buffer` has, too.
        buffer: of the bytes that keys and values are copied from.
        at: where the headers of each record begin.
        ends: of records, and hence of their headers.
        keep: which records are wanted; None: all.

    Raises:
        InvalidRecords: they are not what the format says.
    """
    if keep is not None:
        at, ends = at[keep], ends[keep]
    counts, at = read_varints(data, at)
    if counts.min() < 0 or (counts > np.minimum((ends - at) // 2, MAX_HEADERS)).any():
        raise InvalidRecords("a record has no such number of headers")
    firsts = np.concatenate(([0], np.cumsum(counts)))
    edges = np.zeros((firsts[-1], 4), np.int64)  # key and value of each: start, length
    at = at.copy()
    open_ones = np.flatnonzero(counts)
    number = 0
    while len(open_ones):
        places = firsts[open_ones] + number
        lengths, starts = read_varints(data, at[open_ones])
        edges[places, 0], edges[places, 1] = starts, lengths
        if lengths.min() < 0:
            raise InvalidRecords("a header without a key")
        lengths, starts = read_varints(data, starts + lengths)
        edges[places, 2], edges[places, 3] = starts, lengths
        if lengths.min() < -1:
            raise InvalidRecords("a header's value of no possible length")
        at[open_ones] = starts + np.maximum(lengths, 0)
        if (at[open_ones] > ends[open_ones]).any():
            raise InvalidRecords("a header reaches behind its record")
        number += 1
        open_ones = open_ones[counts[open_ones] > number]
    if (at != ends).any():
        raise InvalidRecords("bytes are left of a record")
    return _column(buffer, counts, firsts, edges)


def _column(
    buffer: pa.Buffer, counts: Numbers, firsts: Places, edges: NDArray[np.int64]
) -> pa.ListArray:
    key_starts, key_lengths, value_starts, value_lengths = edges.T
    ranges = np.empty((len(edges), 4), np.int32)
    ranges[:, 0], ranges[:, 1] = key_starts, key_starts + key_lengths
    ranges[:, 2], ranges[:, 3] = value_starts, value_starts + np.maximum(value_lengths, 0)
    pieces = pa.BinaryArray.from_buffers(
        pa.binary(), max(4 * len(edges) - 1, 0), [None, pa.py_buffer(ranges), buffer]
    )
    elements = 4 * np.arange(len(edges))
    keys = _as_text(pieces.take(pa.array(elements)))
    values = pieces.take(pa.array(elements + 2, mask=value_lengths < 0))
    headers = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(
        pa.array(firsts.astype(np.int32)), headers, type=HEADERS_TYPE, mask=pa.array(counts == 0)
    )


def _as_text(keys: pa.BinaryArray) -> pa.StringArray:
    """Return keys as text; what is no UTF-8 is replaced, as Java's clients do."""
    try:
        return pc.cast(keys, pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
