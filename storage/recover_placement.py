"""Which offsets the batches of the writers' objects have; pure.

The metadata gave them, and is lost. What is left is the order of commits (FoundBatch), and what the
writer of each object expected: that is right unless something came in between that it had not
heard of (a marker, another broker), or a batch before it was refused, or the object was never
committed. So the largest set of runs is looked for whose expectations agree with each other and
with the order of commits; they are where they were expected. The others go where there is room for
them in between; what has no place goes to the end.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from storage.recover_producers import Producers, Verdict
from storage.recover_scratch import FoundBatch
from storage.recover_tail import BuiltTail

_NEVER: Final = 2**63 - 1


@dataclass(slots=True)
class PlacedRun:
    """Batches of one object, side by side in the log.

    Attributes:
        expected_offset: of the first one; negative if the writer did not know.
        offset: that it has.
        is_certain: False: it had no place where it was expected, and was put at the end.
    """

    batches: list[FoundBatch]
    expected_offset: int
    count: int
    offset: int = -1
    is_certain: bool = True


def unbuilt(batches: Sequence[FoundBatch], tail: BuiltTail | None) -> list[FoundBatch]:
    """Return those that come behind what is built.

    Args:
        batches: in the order of their commits. What was committed before one that is built, is
            built as well; unless that one is a repetition, whose writer expects it further on.
        tail: of what is built; None if nothing is.
    """
    if tail is None:
        return list(batches)
    kept: list[FoundBatch] = []
    is_behind = True
    for run in reversed(_runs(batches)):
        expected = run.expected_offset + run.count
        is_known = run.expected_offset >= 0
        for batch in reversed(run.batches):
            expected -= batch.record_count
            if tail.has(batch, expected if is_known else run.expected_offset):
                is_behind = is_behind and not is_known
            elif is_behind or (is_known and expected >= tail.end_offset):
                kept.append(batch)
    return kept[::-1]


def without_repeated(batches: Sequence[FoundBatch], producers: Producers) -> list[FoundBatch]:
    """Return those that were appended, by the rules of idempotent producers.

    A batch whose predecessor is missing was refused if it came again; else something was lost.

    Args:
        batches: in the order of their commits.
        producers: as they are before.
    """
    state = deepcopy(producers)
    last_copies = {_copy_key(batch): number for number, batch in enumerate(batches)}
    kept: list[FoundBatch] = []
    for number, batch in enumerate(batches):
        use = (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.record_count)
        verdict = state.verdict(*use)
        comes_again = verdict is Verdict.EARLY and last_copies[_copy_key(batch)] > number
        if verdict is Verdict.REPEATED or comes_again:
            continue
        state.append(*use, -1, transactional=bool(batch.transactional))
        kept.append(batch)
    return kept


def place(batches: Sequence[FoundBatch], floor: int | None) -> list[PlacedRun]:
    """Return runs of batches with their offsets, ascending.

    Args:
        batches: that were appended, in the order of their commits.
        floor: where they begin at the earliest; None if nothing is known before them.
    """
    runs = _runs(batches)
    certain = _agreeing(runs, floor)
    end: int | None = floor
    homeless: list[PlacedRun] = []
    waiting: list[PlacedRun] = []
    for number, run in enumerate(runs):
        if number not in certain:
            waiting.append(run)
            continue
        homeless += _fit(waiting, end, run.expected_offset)
        waiting = []
        run.offset = run.expected_offset
        end = run.offset + run.count
    for run in waiting:  # behind all that is certain: who did not know came next
        if run.expected_offset >= 0:
            homeless.append(run)
            continue
        run.offset = end or 0
        end = run.offset + run.count
    for run in homeless:
        run.offset, run.is_certain = end or 0, False
        end = run.offset + run.count
    return sorted(runs, key=lambda run: run.offset)


def _runs(batches: Iterable[FoundBatch]) -> list[PlacedRun]:
    runs: list[PlacedRun] = []
    for (_, expected_offset, _), group in groupby(
        batches, lambda batch: (batch.path, batch.run_offset, batch.leader_epoch)
    ):
        members = list(group)
        count = sum(batch.record_count for batch in members)
        runs.append(PlacedRun(members, expected_offset, count))
    return runs


def _agreeing(runs: Sequence[PlacedRun], floor: int | None) -> set[int]:
    """Return the numbers of runs that can all be where they were expected: most records.

    Of two that exclude each other, with as many records, the later one was committed: its writer
    knew of no other.
    """
    bounds = _bounds(runs)
    ends, worths = [floor or 0], [0]  # of the best choices, both ascending
    lasts: list[int] = [-1]
    before: dict[int, int] = {}
    for number, run in enumerate(runs):
        end = run.expected_offset + run.count
        if run.expected_offset < ends[0] or end > bounds[number]:
            continue
        at = bisect_right(ends, run.expected_offset) - 1
        worth = worths[at] + run.count
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


def _bounds(runs: Sequence[PlacedRun]) -> list[int]:
    """Return for each run where it ends at the latest: where a newer leader found the end."""
    bounds = [_NEVER] * len(runs)
    bound, bound_of_epoch, epoch = _NEVER, _NEVER, -1
    for number in range(len(runs) - 1, -1, -1):
        run = runs[number]
        if run.batches[0].leader_epoch != epoch:
            bound, epoch = min(bound, bound_of_epoch), run.batches[0].leader_epoch
        bounds[number] = bound
        if run.expected_offset >= 0:
            bound_of_epoch = min(bound_of_epoch, run.expected_offset)
    return bounds


def _fit(waiting: Sequence[PlacedRun], end: int | None, following: int) -> list[PlacedRun]:
    """Give runs their places between two that are certain; return those that have none."""
    homeless: list[PlacedRun] = []
    at = end
    if at is None:
        at = max(following - sum(run.count for run in waiting), 0)
    for run in waiting:
        if following - at < run.count:
            homeless.append(run)
            continue
        run.offset = max(at, min(run.expected_offset, following - run.count))
        at = run.offset + run.count
    return homeless


def _copy_key(batch: FoundBatch) -> tuple[int, int, int, int]:
    return batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.record_count
