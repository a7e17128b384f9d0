"""Where records begin that lie back to back: each says its own length, so one leads to the next.

A record begins with its length, a zigzag varint (protocol/records.py). Following lengths is the one
part of decoding that has an order, and a loop of Python takes longer for it than all else takes. So
places where a record may begin are guessed, many at a time: most records have no headers, hence end
with a byte that is zero; then comes a length of one or two bytes, and attributes, which are zero,
too. A guess is taken only where the lengths before it lead to it. So what is returned is always
what lengths say, whatever bytes keys and values have; the guess only saves steps.
"""

from typing import Final

import numpy as np

from protocol.batch import MINIMAL_RECORD_BYTES
from protocol.errors import InvalidRecords
from spark.sources.varints import Bytes, Places
from storage.config import MiB

WINDOW_BYTES: Final = MiB
"""What is guessed about at a time, so that memory is bounded whatever there is."""
PADDING_BYTES: Final = 8
"""What has to be behind the last record, for lengths that are looked for there."""

_MORE: Final = 0x80
_STEP: Final = tuple((low >> 1) - 62 if low & _MORE else (low >> 1) + 1 for low in range(256))
"""How far it is to the next record, from the first byte of a length; if there is a second byte,
64 times that is to be added."""
_STEPS: Final = np.array(_STEP, np.int64)
_AT_ONCE: Final = 16  # records that are followed one by one where no guess is right


def find_starts(data: bytes, view: Bytes, end: int, count: int) -> Places:
    """Return where each of `count` records begins, and where the last one ends.

    Args:
        data: begins with the first record; with PADDING_BYTES behind `end`.
        view: the same bytes.
        end: of the records.
        count: how many there should be.

    Raises:
        InvalidRecords: lengths do not lead to so many records before `end`. (That the last one ends
            there is the caller's to check.)
    """
    found: list[Places] = []
    at, left, guess = 0, count, True
    while left:
        until = min(at + WINDOW_BYTES, end)
        if at >= end:
            raise InvalidRecords(f"bytes end {left} records too early")
        if guess:
            some, at, guess = _by_guess(data, view, at, until, left)
        else:
            some, at = _one_by_one(data, at, until, left)
        found.append(some)
        left -= len(some)
    return np.concatenate([*found, np.array([at], np.int64)])


def _one_by_one(data: bytes, at: int, until: int, most: int) -> tuple[Places, int]:
    """Follow lengths up to a place, or for so many records; return starts, and the next one."""
    starts: list[int] = []
    append = starts.append
    step = _STEP
    for _ in range(most):
        if at >= until:
            break
        append(at)
        low = data[at]
        if low < _MORE:
            at += step[low]
        else:
            high = data[at + 1]
            at += (high << 6) + step[low] if high < _MORE else _long_step(data, at)
    return np.array(starts, np.int64), at


def _long_step(data: bytes, at: int) -> int:
    """Return how far it is to the next record if the length has more than two bytes."""
    value = shift = 0
    for position in range(at, at + 5):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            break
        shift += 7
    else:
        raise InvalidRecords("the length of a record does not end")
    length = value >> 1
    if value & 1 or length < MINIMAL_RECORD_BYTES - 1:
        raise InvalidRecords("a record of no possible length")
    return position + 1 - at + length


def _by_guess(data: bytes, view: Bytes, at: int, until: int, most: int) -> tuple[Places, int, bool]:
    """Do as `_one_by_one`; and return whether guesses were of use."""
    places, ends = _guess(view, at, until)
    breaks = np.flatnonzero(ends[:-1] != places[1:])  # the next guess is not where this one leads
    taken: list[Places] = []
    count = steps = 0
    while at < until and count < most:
        first = int(places.searchsorted(at))
        if first < len(places) and places[first] == at:
            broken = int(breaks.searchsorted(first))
            last = int(breaks[broken]) if broken < len(breaks) else len(places) - 1
            last = min(last, first + most - count - 1)
            taken.append(places[first : last + 1])
            at = int(ends[last])
        else:
            some, at = _one_by_one(data, at, until, min(most - count, _AT_ONCE))
            taken.append(some)
        steps += 1
        count += len(taken[-1])
    return np.concatenate(taken), at, steps * _AT_ONCE <= 4 * count


def _guess(view: Bytes, at: int, until: int) -> tuple[Places, Places]:
    """Return places where records may begin, and where they would end."""
    zeros = np.flatnonzero(view[at:until] == 0)
    gaps = np.diff(zeros)
    places = zeros[:-1][(gaps == 2) | (gaps == 3)] + (at + 1)
    low, high = view.take(places), view.take(places + 1)
    is_long = low >= _MORE
    if (is_long & (high >= _MORE)).any():
        short = ~is_long | (high < _MORE)
        places, low, high, is_long = places[short], low[short], high[short], is_long[short]
    ends = places + _STEPS.take(low)
    ends += np.where(is_long, high.astype(np.int64) << 6, 0)
    return places, ends
