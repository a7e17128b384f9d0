"""Which of a partition's built segments are its log; pure.

A store may have segments that were merged or compacted into others and not deleted yet, and some
that were never part of the log, because somebody else's came first. All of them cover whole rows
of some moment, and say the truth about what they cover: all but those that an earlier recovery has
closed gaps with.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
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


def left_out(
    found: Iterable[FoundSegment],
    chosen: Iterable[FoundSegment],
    missing: Sequence[tuple[int, int]],
) -> list[FoundSegment]:
    """Return the segments that have offsets which nobody else has, and are not chosen.

    Args:
        found: all segments of a partition.
        chosen: of them.
        missing: offsets (inclusive) that the log has nothing of.
    """
    paths = {one.path for one in chosen}
    return [
        one
        for one in found
        if one.path not in paths
        and not one.is_gap
        and any(first <= one.end_offset and one.start_offset <= last for first, last in missing)
    ]


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
