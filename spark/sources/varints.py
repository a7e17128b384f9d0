"""Zigzag varints of many places of a buffer at once (protocol/records.py says what they are)."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from protocol.errors import InvalidRecords

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
Numbers = NDArray[np.int64]

VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10

_MORE: Final = 0x7F  # a byte above it is not the last one
_BITS: Final = np.uint8(0x7F)
_ONE: Final = np.uint64(1)


def read_varints(data: Bytes, at: Places, most: int = VARINT_BYTES) -> tuple[Numbers, Places]:
    """Return the numbers that begin at `at`, and where each ends.

    A place behind the data reads as its last byte: that it is none is the caller's to check.

    Args:
        data: with at least one byte.
        at: places; not changed.
        most: bytes of one; VARINT_BYTES is a number of 32 bits, VARLONG_BYTES of 64.

    Raises:
        InvalidRecords: one does not end, or is too large.
    """
    byte = data.take(at, mode="clip")
    if len(byte) == 0 or byte.max() <= _MORE:
        return _zigzag(byte.astype(np.uint64)), at + 1
    value = (byte & _BITS).astype(np.uint64)
    after = at + 1
    open_ones = np.flatnonzero(byte > _MORE)
    for number in range(1, most):
        shift = np.uint64(7 * number)
        if len(open_ones) == len(at):
            byte = data.take(after, mode="clip")
            value |= (byte & _BITS).astype(np.uint64) << shift
            after += 1
        else:
            byte = data.take(after[open_ones], mode="clip")
            value[open_ones] |= (byte & _BITS).astype(np.uint64) << shift
            after[open_ones] += 1
        goes_on = byte > _MORE
        if not goes_on.any():
            _check_size(byte, number + 1, most)
            return _check_bits(value, most), after
        _check_size(byte[~goes_on], number + 1, most)
        open_ones = open_ones[goes_on]
    raise InvalidRecords("a varint does not end")


def _check_size(last_byte: Bytes, length: int, most: int) -> None:
    """Refuse bits beyond the 64th in the tenth byte, which a shift would lose."""
    if length == VARLONG_BYTES == most and len(last_byte) and last_byte.max() > 1:
        raise InvalidRecords("a varint is too large")


def _check_bits(value: NDArray[np.uint64], most: int) -> Numbers:
    if most == VARINT_BYTES and value.max() >> np.uint64(32):
        raise InvalidRecords("a varint is too large")
    return _zigzag(value)


def _zigzag(value: NDArray[np.uint64]) -> Numbers:
    half = (value >> _ONE).view(np.int64)
    half ^= -(value & _ONE).view(np.int64)
    return half
