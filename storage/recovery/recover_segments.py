"""Which of a partition's built segments are its log; pure.

A store may have segments that were merged or compacted into others and not deleted yet, and some
that were never part of the log, because somebody else's came first. All of them cover whole rows
of some moment, and say the truth about what they cover: all but those that an earlier recovery has
closed gaps with.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from storage.aborted_transaction import AbortedTransaction
from storage.recovery.recover_scratch import FoundSegment
from storage.segment_entry import SegmentEntry


class _Chain(NamedTuple):
    """The best choice among some of the segments: `worth`, and the last one chosen."""

    worth: tuple[int, int, int]
    last: int
    before: "_Chain | None"


def choose_segments(found: Sequence[FoundSegment]) -> list[FoundSegment]:
    """Return segments that do not overlap, in offset order: those that cover most offsets.

    Of choices that cover as many, it is the one of fewest segments: those came in the place of the
    others. Of segments that cover the same, the newest is taken. What stands for a gap is left out:
    what it stands for may have been put back, into a part of it, or into the writers' objects.
    """
    newest: dict[tuple[int, int], FoundSegment] = {}
    for one in sorted(found, key=lambda one: (one.modified_ms, one.path)):
        if one.is_gap:
            continue
        newest[one.start_offset, one.end_offset] = one
    ascending = sorted(newest.values(), key=lambda one: one.end_offset)
    ends = [one.end_offset for one in ascending]
    best: list[_Chain | None] = [None]  # at i: of the first i segments
    for number, one in enumerate(ascending):
        before = best[bisect_right(ends, one.start_offset - 1, 0, number)]
        covered, count, age = before.worth if before else (0, 0, 0)
        worth = (
            covered + one.end_offset - one.start_offset + 1,
            count - 1,
            age + one.modified_ms,
        )
        taken = _Chain(worth, number, before)
        left = best[-1]
        best.append(taken if left is None or taken.worth > left.worth else left)
    chosen: list[FoundSegment] = []
    chain = best[-1]
    while chain is not None:
        chosen.append(ascending[chain.last])
        chain = chain.before
    return chosen[::-1]


def gaps_between(chosen: Sequence[FoundSegment | SegmentEntry]) -> list[tuple[int, int]]:
    """Return the offsets (inclusive) between segments, or rows, that none of them covers."""
    return [
        (one.end_offset + 1, other.start_offset - 1)
        for one, other in pairwise(chosen)
        if one.end_offset + 1 < other.start_offset
    ]


def aborted_in_gaps(found: Sequence[FoundSegment]) -> list[AbortedTransaction]:
    """Return the aborted transactions that ended in gaps, as an earlier recovery has found them."""
    return [transaction for one in found if one.is_gap for transaction in one.aborted]


def stable_offsets(aborted: Sequence[AbortedTransaction]) -> list[int]:
    """Return the last stable offset after each marker, as far as it is known.

    Args:
        aborted: by their last offsets. None that ends later begins before the offset returned.
    """
    stable: list[int] = []
    earliest = 2**63 - 1
    for one in reversed(aborted):
        stable.append(min(one.last_offset + 1, earliest))
        earliest = min(earliest, one.first_offset)
    return stable[::-1]
