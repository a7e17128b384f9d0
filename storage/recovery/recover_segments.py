"""Which of a partition's built segments are its log; pure.

A store may have segments that were merged or compacted into others and not deleted yet, and some
that were never part of the log, because somebody else's came first. All of them cover whole rows
of some moment, and say the truth about what they cover: all but those that an earlier recovery has
closed gaps with.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from storage.aborted_transaction import AbortedTransaction
from storage.recovery.recover_offsets import Offsets, OnlyHere
from storage.recovery.recover_scratch import FoundSegment
from storage.segment_entry import SegmentEntry

_WORTH: Final = attrgetter("worth")


class _Chain(NamedTuple):
    """The best choice among some of the segments: `worth`, and the last one chosen."""

    worth: tuple[int, int, int, int, int]
    last: int
    before: "_Chain | None"


def choose_segments(
    found: Sequence[FoundSegment], told: Iterable[Offsets] = ()
) -> list[FoundSegment]:
    """Return segments that do not overlap, in offset order: those without which most is lost.

    What the writers' objects have as well is not lost. Nor is the start of a log whose next segment
    reaches into it, and was stored later: whoever built that found no other one there, so this one
    never came into the log, and what it begins with was deleted from the log since.

    Of choices without which as much is lost, it is the one that covers most, then the one of fewest
    segments: those came in the place of the others. Of segments that cover the same, the newest is
    taken. What stands for a gap is left out: what it stands for may have been put back, into a part
    of it, or into the writers' objects.

    Args:
        found: all segments of a partition.
        told: offsets that writers' objects have, as they were told.
    """
    newest: dict[Offsets, FoundSegment] = {}
    for one in sorted(found, key=lambda one: (one.modified_ms, one.path)):
        if one.is_gap:
            continue
        newest[one.start_offset, one.end_offset] = one
    ascending = sorted(newest.values(), key=lambda one: one.end_offset)
    only_here = OnlyHere(((one.start_offset, one.end_offset) for one in ascending), told)
    held = [
        only_here.before(one.end_offset + 1) - only_here.before(one.start_offset)
        for one in ascending
    ]
    deleted = _deleted_before(ascending, only_here)
    ends = [one.end_offset for one in ascending]
    best: list[_Chain | None] = [None]  # at i: of the first i segments
    for number, one in enumerate(ascending):
        before = best[bisect_right(ends, one.start_offset - 1, 0, number)]
        taken = _chain(None, number, one, held[number], deleted[number])
        if before is not None:
            taken = max(taken, _chain(before, number, one, held[number], 0), key=_WORTH)
        left = best[-1]
        best.append(taken if left is None or taken.worth > left.worth else left)
    chosen: list[FoundSegment] = []
    chain = best[-1]
    while chain is not None:
        chosen.append(ascending[chain.last])
        chain = chain.before
    return chosen[::-1]


def _chain(
    before: _Chain | None, number: int, one: FoundSegment, only_here: int, deleted: int
) -> _Chain:
    """Return a choice with one more segment."""
    kept, held, covered, count, age = before.worth if before else (0, 0, 0, 0, 0)
    worth = (
        kept + only_here + deleted,
        held + only_here,
        covered + one.end_offset - one.start_offset + 1,
        count - 1,
        age + one.modified_ms,
    )
    return _Chain(worth, number, before)


def _deleted_before(ascending: Sequence[FoundSegment], only_here: OnlyHere) -> list[int]:
    """Return for each segment how many offsets before it were deleted if it is the first one."""
    fronts = [one for one in ascending if not only_here.before(one.start_offset)]
    deleted: list[int] = []
    for one in ascending:
        count = only_here.before(one.start_offset)
        are_older = [
            other.modified_ms < one.modified_ms
            for other in (fronts if count else ())
            if other.start_offset < one.start_offset <= other.end_offset
        ]
        deleted.append(count if are_older and all(are_older) else 0)
    return deleted


def left_out(
    found: Iterable[FoundSegment], chosen: Iterable[FoundSegment], missing: Sequence[Offsets]
) -> list[FoundSegment]:
    """Return the segments that have offsets which nobody else has, and are not chosen.

    Args:
        found: all segments of a partition.
        chosen: of them.
        missing: offsets that the log has nothing of.
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
