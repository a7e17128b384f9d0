"""What is among the writers' batches of a partition that none of them is; pure.

That is ends of transactions, and batches that are gone (recover_told.py).
"""

from collections.abc import Collection, Sequence
from typing import Final

from storage.recovery.recover_runs import PlacedRun
from storage.recovery.recover_told import COUNT_MARGIN

_NEVER: Final = 2**63


def with_markers(
    runs: Sequence[PlacedRun], offsets: Collection[int], gone: Collection[int] = ()
) -> list[PlacedRun]:
    """Return runs with one for each marker among them, which is told to be where it is.

    What was expected where a marker is, comes behind it: its writer had not heard of that. So does
    what the writer had under way behind that.

    Args:
        runs: in the order of their commits.
        offsets: of the markers.
        gone: offsets of batches that are gone. What nobody expected anywhere comes behind them:
            rather is it read again there than never.
    """
    if not runs:
        return []
    left = sorted({*offsets, *gone}, reverse=True)
    least_told = _least_told(runs)
    ends: dict[str, tuple[int, int]] = {}  # by writer, of its last run: expected, and as it is now
    merged: list[PlacedRun] = []
    expected = 0  # how many there are up to the last one that is expected somewhere
    for number, run in enumerate(runs):
        is_known = run.expected_offset >= 0 and not run.is_doubtful
        expected_end = run.expected_end
        if is_known and not run.is_told:
            end, moved_end = ends.get(run.writer, (-1, -1))
            if run.expected_offset == end:
                run.expected_offset = moved_end
        while is_known and left and left[-1] < min(run.expected_end, least_told[number]):
            offset = left.pop()
            merged.append(_marker(offset, merged[-1] if merged else run))
            if run.expected_offset <= offset:
                run.expected_offset = offset + 1
        merged.append(run)
        if is_known:
            ends[run.writer] = expected_end, run.expected_end
            expected = len(merged)
    return _with_last(merged, expected, left[::-1], max(gone, default=-1))


def _with_last(
    runs: Sequence[PlacedRun], expected: int, offsets: Sequence[int], last_gone: int
) -> list[PlacedRun]:
    """Return runs with those markers that are behind all that is expected somewhere.

    Args:
        runs: with the other markers.
        expected: how many of them there are up to the last one that is expected somewhere.
        offsets: of the markers that are left, ascending.
        last_gone: offset of the last batch that is gone.
    """
    merged = [*runs[:expected]]
    behind = [offset for offset in offsets if offset > last_gone]
    for offset in offsets[: len(offsets) - len(behind)]:
        is_last = offset == last_gone and not behind
        count = 1 + COUNT_MARGIN if is_last else 1
        merged.append(_marker(offset, merged[-1] if merged else runs[0], count))
    merged += runs[expected:]
    for offset in behind:
        merged.append(_marker(offset, merged[-1]))
    return merged


def _least_told(runs: Sequence[PlacedRun]) -> list[int]:
    """Return for each run where it or one behind it is told to be, the least."""
    least = _NEVER
    found: list[int] = []
    for run in reversed(runs):
        if run.is_told:
            least = min(least, run.expected_offset)
        found.append(least)
    found.reverse()
    return found


def _marker(offset: int, beside: PlacedRun, count: int = 1) -> PlacedRun:
    """Return a run that stands for a marker, of the leader of the run beside it."""
    batch = beside.batches[0]._replace(run_offset=offset, record_count=count, is_told=1)
    return PlacedRun([batch], offset, count, is_marker=True)
