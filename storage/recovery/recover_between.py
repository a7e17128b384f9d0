"""The part of a log that is built, with what lies between its segments: batches and markers."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from protocol.control_batch import EndMarker
from storage.aborted_transaction import AbortedTransaction
from storage.objects.port import ObjectStore
from storage.recovery.recover_producers import Producers
from storage.recovery.recover_runs import PlacedRun
from storage.recovery.recover_scratch import FoundBatch, FoundSegment
from storage.recovery.recover_tail import BY_OFFSET, Between, read_tail_of
from storage.segment_entry import SegmentEntry

Offsets = tuple[int, int]
"""The first and the last one."""


@dataclass(slots=True, kw_only=True)
class BuiltPart:
    """A log up to the end of its last built segment.

    Attributes:
        rows: that tile it, in offset order.
        end_offset: one past its last offset.
        producers: as they are there.
        aborted: transactions that ended in it.
        lost: offsets that nobody has any more.
        homeless: writers' batches that found no room in it.
    """

    rows: list[SegmentEntry] = field(default_factory=list)
    end_offset: int = 0
    producers: Producers = field(default_factory=Producers)
    aborted: Sequence[AbortedTransaction] = ()
    lost: Sequence[Offsets] = ()
    homeless: Sequence[FoundBatch] = ()


def ends_in(gaps: Iterable[Offsets], endings: Mapping[int, EndMarker]) -> dict[int, EndMarker]:
    """Return the ends of transactions whose markers lie in gaps, by their offsets, ascending."""
    offsets = [*endings]
    return {
        offset: endings[offset]
        for first, last in gaps
        for offset in offsets[bisect_left(offsets, first) : bisect_right(offsets, last)]
    }


def without_markers(gaps: Iterable[Offsets], markers: Iterable[int]) -> list[Offsets]:
    """Return the offsets of gaps that no marker has.

    Args:
        gaps: ascending.
        markers: offsets of the markers, ascending.
    """
    left: list[Offsets] = []
    ascending = [*markers]
    for first, last in gaps:
        taken = ascending[bisect_left(ascending, first) : bisect_right(ascending, last)]
        starts = [first, *(offset + 1 for offset in taken)]
        ends = [*(offset - 1 for offset in taken), last]
        left += [one for one in zip(starts, ends, strict=True) if one[0] <= one[1]]
    return left


def in_offset_order(runs: Iterable[PlacedRun], ends: Mapping[int, EndMarker]) -> list[Between]:
    """Return the batches of runs that have their places, and ends of transactions."""
    placed: list[Between] = [one for run in runs for one in run.placed()]
    return sorted([*placed, *((one, offset) for offset, one in ends.items())], key=BY_OFFSET)


async def aborted_between(
    objects: ObjectStore, chosen: Sequence[FoundSegment], between: Sequence[Between]
) -> list[AbortedTransaction]:
    """Return the aborted transactions whose markers lie between segments.

    What they wrote is looked for there, and in the end of the segments before it.

    Args:
        objects: where the segments are.
        chosen: the segments, in offset order.
        between: what lies between them, in offset order.

    Raises:
        ObjectStoreUnavailable: no answer.
    """
    starts = [one.start_offset for one in chosen]
    gaps = {
        bisect_right(starts, offset)
        for one, offset in between
        if isinstance(one, EndMarker) and not one.committed
    }
    found: list[AbortedTransaction] = []
    for number in sorted(gaps):  # of the segment behind the marker
        before = between[: bisect_left(between, starts[number], key=BY_OFFSET)]
        tail = await read_tail_of(objects, chosen[:number], before)
        end = chosen[number - 1].end_offset if number else -1
        found += (one for one in tail.aborted if one.last_offset > end)
    return found
