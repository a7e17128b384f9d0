"""Runs of the writers' batches, and which of their expectations agree with each other; pure.

A writer expects right unless something came in between that it had not heard of (a marker, another
broker), or a batch before it was refused, or the object was never committed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from storage.recovery.recover_scratch import FoundBatch

LEFT_BEHIND: Final = 16
"""A crash leaves no more runs of a partition than a broker has objects in flight."""

NOT_BY_CHANCE: Final = 64
"""So many offsets that are missing where they are needed were not all taken by markers."""

_NEVER: Final = 2**63 - 1
_TOLD: Final = 2**63
"""Records that a run outweighs whose offset is no expectation."""


@dataclass(slots=True)
class PlacedRun:
    """Batches of one object, side by side in the log.

    Attributes:
        expected_offset: of the first one; negative if the writer did not know. If the run is told,
            it is there.
        offset: that it has.
        is_certain: False: it had no place where it was expected, and was put at the end.
        is_doubtful: what its writer expected was out of date.
        is_marker: it only stands for one, which has its place (recover_markers.py).
    """

    batches: list[FoundBatch]
    expected_offset: int
    count: int
    offset: int = -1
    is_certain: bool = True
    is_doubtful: bool = False
    is_marker: bool = False

    @property
    def expected_end(self) -> int:
        return self.expected_offset + self.count

    def placed(self) -> Iterator[tuple[FoundBatch, int]]:
        """Yield batches with the offsets that they have."""
        offset = self.offset
        for batch in self.batches:
            yield batch, offset
            offset += batch.record_count

    @property
    def leader_epoch(self) -> int:
        return self.batches[0].leader_epoch

    @property
    def writer(self) -> str:
        return self.batches[0].writer

    @property
    def is_told(self) -> bool:
        """Whether the writer was told where the run is."""
        return bool(self.batches[0].is_told)


def runs_of(batches: Iterable[FoundBatch]) -> list[PlacedRun]:
    """Return the runs of batches, in their order."""
    runs: list[PlacedRun] = []
    for (_, expected_offset, _), group in groupby(
        batches, lambda batch: (batch.path, batch.run_offset, batch.leader_epoch)
    ):
        members = list(group)
        count = sum(batch.record_count for batch in members)
        runs.append(PlacedRun(members, expected_offset, count))
    return runs


def agreeing(runs: Sequence[PlacedRun], floor: int | None) -> set[int]:
    """Return the numbers of runs that can all be where they were expected: most records.

    Of two that exclude each other, with as many records, the later one was committed: its writer
    knew of no other.

    Args:
        runs: in the order of their commits; those that are marked are left out.
        floor: where they begin at the earliest; None if nothing is known before them.
    """
    return _heaviest(runs, bounds_of(runs, floor or 0), floor or 0)


def _heaviest(runs: Sequence[PlacedRun], bounds: Sequence[int], floor: int) -> set[int]:
    ends, worths = [floor], [0]  # of the best choices, both ascending
    lasts: list[int] = [-1]
    before: dict[int, int] = {}
    for number, run in enumerate(runs):
        end = run.expected_end
        if run.is_doubtful or run.expected_offset < floor:
            continue
        if end > bounds[number] and not run.is_told:
            continue
        at = bisect_right(ends, run.expected_offset) - 1
        worth = worths[at] + run.count + (_TOLD if run.is_told else 0)
        before[number] = lasts[at]
        at = bisect_left(ends, end)
        if at > 0 and worths[at - 1] >= worth:
            continue
        if at < len(ends) and ends[at] == end and worths[at] > worth:
            continue
        stop = at
        while stop < len(ends) and worths[stop] <= worth:
            stop += 1
        ends[at:stop], worths[at:stop], lasts[at:stop] = [end], [worth], [number]
    chosen: set[int] = set()
    number = lasts[-1]
    while number >= 0:
        chosen.add(number)
        number = before[number]
    return chosen


def bounds_of(runs: Sequence[PlacedRun], floor: int) -> list[int]:
    """Return for each run where it ends at the latest: where a newer leader found the end."""
    bounds = [_NEVER] * len(runs)
    bound, bound_of_epoch, epoch = _NEVER, _NEVER, -1
    for number in range(len(runs) - 1, -1, -1):
        run = runs[number]
        if run.leader_epoch != epoch:
            bound, epoch = min(bound, bound_of_epoch), run.leader_epoch
        bounds[number] = bound
        if run.expected_offset >= floor and not run.is_doubtful:
            bound_of_epoch = min(bound_of_epoch, run.expected_offset)
    return bounds


def mark_doubtful(runs: Sequence[PlacedRun], floor: int | None) -> None:
    """Mark what leaders expected before they heard how far others had come meanwhile.

    Where a new leader expects less than older ones had reached, most often those runs were never
    committed, and it is right. It is not where they are more than a crash leaves, or where it goes
    on later just as if they had been there.

    Args:
        runs: in the order of their commits.
        floor: where they begin at the earliest; None if nothing is known before them.
    """
    least = floor or 0
    ends: list[int] = []  # the largest one up to each run
    for run in runs:
        end = run.expected_end if run.expected_offset >= least else least
        ends.append(max(end, ends[-1]) if ends else end)
    start = 0
    for _, group in groupby(runs, lambda run: run.leader_epoch):
        members = list(group)
        known = [run for run in members if run.expected_offset >= least]
        if start and known:
            found = min(run.expected_offset for run in known)
            if ends[start - 1] > found:
                _doubt(known, [run for run in runs[:start] if run.expected_end > found], least)
        start += len(members)


def _doubt(known: Sequence[PlacedRun], beyond: Sequence[PlacedRun], floor: int) -> None:
    """Mark those of a leader's runs that are less to be believed than what they contradict.

    Args:
        known: of one leader, those that it had an expectation for.
        beyond: of older leaders: expected to end behind the first of them.
        floor: nothing begins before it.
    """
    others = [beyond[number] for number in _heaviest(beyond, [_NEVER] * len(beyond), floor)]
    if not others:
        return
    end = max(run.expected_end for run in others)
    low = [run for run in known if run.expected_offset < end]
    later = [run.expected_offset for run in known if run.expected_offset >= end]
    missing = min(later) - end - sum(run.count for run in low) if later else -1
    overlap = end - min(run.expected_offset for run in low)
    goes_on = 0 <= missing <= len(low) + len(others) and overlap >= NOT_BY_CHANCE
    if goes_on or len(others) > max(LEFT_BEHIND, len(low)):
        for run in low:
            run.is_doubtful = not run.is_told
