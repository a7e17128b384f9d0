"""Where the ends of transactions are among the writers' batches of a partition; pure."""

from collections.abc import Collection, Sequence
from typing import Final

from storage.recovery.recover_runs import PlacedRun

_NEVER: Final = 2**63


def with_markers(runs: Sequence[PlacedRun], offsets: Collection[int]) -> list[PlacedRun]:
    """Return runs with one for each marker among them, which is told to be where it is.

    What was expected where a marker is, comes behind it: its writer had not heard of that. So does
    what the writer had under way behind that.

    Args:
        runs: in the order of their commits.
        offsets: of the markers.
    """
    if not runs:
        return []
    left = sorted(offsets, reverse=True)
    least_told = _least_told(runs)
    ends: dict[str, tuple[int, int]] = {}  # by writer, of its last run: expected, and as it is now
    merged: list[PlacedRun] = []
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
        if is_known:
            ends[run.writer] = expected_end, run.expected_end
        merged.append(run)
    while left:
        merged.append(_marker(left.pop(), merged[-1]))
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


def _marker(offset: int, beside: PlacedRun) -> PlacedRun:
    """Return a run that stands for a marker, of the leader of the run beside it."""
    batch = beside.batches[0]._replace(run_offset=offset, record_count=1, is_told=1)
    return PlacedRun([batch], offset, 1, is_marker=True)
