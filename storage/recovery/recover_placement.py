"""Which offsets the batches of the writers' objects have; pure.

The metadata gave them, and is lost. What is left is the order of commits (FoundBatch), and what the
writer of each object expected (storage/recovery/recover_runs.py). So the largest set of runs is
looked for whose expectations agree with each other and with the order of commits; they are where
they were expected. The others go where there is room for them in between; what has no place goes to
the end.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Final

from storage.recovery.recover_markers import with_markers
from storage.recovery.recover_producers import EndKey, Producers, Verdict, end_key
from storage.recovery.recover_runs import PlacedRun, agreeing, bounds_of, mark_doubtful, runs_of
from storage.recovery.recover_scratch import FoundBatch

MOST_UNDER_WAY: Final = 5
"""Batches of an idempotent producer in a partition at a time; clients keep to it (KIP-98)."""


def without_repeated(batches: Sequence[FoundBatch], producers: Producers) -> list[FoundBatch]:
    """Return those that were appended: as told, or by the rules of idempotent producers.

    A batch whose predecessor is missing was refused if that came later, or was refused, or if it
    came again itself; else something was lost. Of a producer of which nothing is known here,
    something may be built: a batch of its was refused only if all that it is behind came later.

    Args:
        batches: in the order of their commits.
        producers: as they are before.
    """
    state = deepcopy(producers)
    told = {_copy_key(batch) for batch in batches if batch.is_told and batch.base_sequence >= 0}
    last_copies = {_copy_key(batch): number for number, batch in enumerate(batches)}
    last_ends = {end_key(batch, batch.record_count): number for number, batch in enumerate(batches)}
    kept: list[FoundBatch] = []
    overtaken: set[int] = set()
    for number, batch in enumerate(batches):
        use = _copy_key(batch)
        if batch.is_told or use in told:
            if batch.is_told:
                _keep(batch, state, kept)
            continue
        verdict = state.verdict(*use)
        comes_again = verdict is Verdict.EARLY and last_copies[use] > number
        is_overtaken = (
            verdict is Verdict.EARLY and _is_behind_refused(number, batches, last_ends, overtaken)
        ) or (
            verdict is Verdict.UNKNOWN
            and _is_before_its_first(number, batches, last_ends, overtaken)
        )
        if is_overtaken:
            overtaken.add(number)
        if verdict is Verdict.REPEATED or comes_again or is_overtaken:
            continue
        _keep(batch, state, kept)
    return kept


def _keep(batch: FoundBatch, state: Producers, kept: list[FoundBatch]) -> None:
    state.take(batch, -1)
    kept.append(batch)


def _is_behind_refused(
    number: int,
    batches: Sequence[FoundBatch],
    last_ends: Mapping[EndKey, int],
    overtaken: Collection[int],
) -> bool:
    """Whether the predecessor of a batch came later, or was refused itself."""
    at = last_ends.get(end_key(batches[number], 0), -1)
    return at > number or at in overtaken


def _is_before_its_first(
    number: int,
    batches: Sequence[FoundBatch],
    last_ends: Mapping[EndKey, int],
    overtaken: Collection[int],
) -> bool:
    """Whether all that a batch is behind came later, from the producer's first batch on.

    Or was refused for that itself. All of these were under way together, so they are few.
    """
    at = number
    for _ in range(MOST_UNDER_WAY):
        at = last_ends.get(end_key(batches[at], 0), -1)
        if at in overtaken:
            return True
        if at <= number:
            return False
        if batches[at].base_sequence == 0:
            return True
    return False


def place(
    batches: Sequence[FoundBatch],
    floor: int | None,
    markers: Collection[int] = (),
    gone: Collection[int] = (),
) -> list[PlacedRun]:
    """Return runs of batches with their offsets, ascending.

    Args:
        batches: that were appended, in the order of their commits.
        floor: where they begin at the earliest; None if nothing is known before them.
        markers: offsets that ends of transactions have, not before that.
        gone: offsets of batches that are gone, not before that.
    """
    runs = runs_of(batches)
    mark_doubtful(runs, floor)
    runs = with_markers(runs, markers, gone)
    waiting, homeless, end = _place_certain(runs, floor)
    for run in waiting:  # behind all that is certain: who did not know came next
        if run.expected_offset >= 0:
            homeless.append(run)
            continue
        run.offset = end or 0
        end = run.offset + run.count
    for run in homeless:
        run.offset, run.is_certain = end or 0, False
        end = run.offset + run.count
    return sorted((run for run in runs if not run.is_marker), key=lambda run: run.offset)


def place_between(
    batches: Sequence[FoundBatch], first: int, end: int, markers: Collection[int] = ()
) -> tuple[list[PlacedRun], list[PlacedRun]]:
    """Return runs of batches with their offsets, ascending; and those that find no room.

    Of these, what a newer leader did not find was never committed, and is left out.

    Args:
        batches: that were appended, in the order of their commits.
        first: where they begin at the earliest.
        end: before which they end.
        markers: offsets that ends of transactions have, between those.
    """
    runs = runs_of(batches)
    mark_doubtful(runs, first)
    for run in runs:
        run.is_doubtful |= run.expected_end > end
    runs = with_markers(runs, markers)
    waiting, _, at = _place_certain(runs, first)
    _fit(waiting, at, end)
    placed = [run for run in runs if run.offset >= 0 and not run.is_marker]
    homeless = [
        run
        for run, bound in zip(runs, bounds_of(runs, first), strict=True)
        if run.offset < 0 and run.expected_end <= bound and not run.is_marker
    ]
    return sorted(placed, key=lambda run: run.offset), homeless


def _place_certain(
    runs: Sequence[PlacedRun], floor: int | None
) -> tuple[list[PlacedRun], list[PlacedRun], int | None]:
    """Place runs whose expectations agree, and those that fit between them.

    Returns:
        those behind the last one, those without a place, and where the last one ends.
    """
    certain = agreeing(runs, floor)
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
    return waiting, homeless, end


def _fit(waiting: Sequence[PlacedRun], end: int | None, following: int) -> list[PlacedRun]:
    """Give runs their places between two that are certain; return those that have none.

    Of those whose writers did not know the end, rather the oldest have none: they are built.
    """
    homeless: list[PlacedRun] = []
    at = end
    if at is None:
        at = max(following - sum(run.count for run in waiting), 0)
    too_old: set[int] = set()
    room = following - at
    for number, run in reversed(list(enumerate(waiting))):
        if run.expected_offset >= 0:
            continue
        if run.count > room:
            too_old.add(number)
        else:
            room -= run.count
    for number, run in enumerate(waiting):
        if number in too_old or run.count > following - at:
            homeless.append(run)
            continue
        run.offset = max(at, min(run.expected_offset, following - run.count))
        at = run.offset + run.count
    return homeless


def _copy_key(batch: FoundBatch) -> tuple[int, int, int, int]:
    return batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.record_count
