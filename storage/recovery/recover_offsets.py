"""Which offsets only some of a partition's objects have; pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from operator import itemgetter
from typing import Final

Offsets = tuple[int, int]
"""The first and the last one."""

_LAST: Final = itemgetter(1)


class OnlyHere:
    """Offsets that nobody has but segments: no writer's object of which it is told.

    Args:
        segments: the offsets of those that there are.
        told: offsets that writers' objects have, as they were told.
    """

    def __init__(self, segments: Iterable[Offsets], told: Iterable[Offsets]) -> None:
        elsewhere = _merged(told)
        self._starts: list[int] = []
        self._ends: list[int] = []  # exclusive
        for first, last in _merged(segments):
            at = first
            for begin, end in elsewhere[bisect_left(elsewhere, first, key=_LAST) :]:
                if begin > last:
                    break
                self._add(at, begin)
                at = end + 1
            self._add(at, last + 1)
        lengths = (end - start for start, end in zip(self._starts, self._ends, strict=True))
        self._counts = [0, *accumulate(lengths)]

    def before(self, offset: int) -> int:
        """Return how many of them are before an offset."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            return 0
        return self._counts[at] + min(offset, self._ends[at]) - self._starts[at]

    def _add(self, start: int, end: int) -> None:
        if start < end:
            self._starts.append(start)
            self._ends.append(end)


def _merged(extents: Iterable[Offsets]) -> list[Offsets]:
    """Return offsets as ranges that do not overlap, ascending."""
    merged: list[Offsets] = []
    for first, last in sorted(extents):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged
