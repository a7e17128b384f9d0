"""The writers' batches that belong between built segments, or before the first one.

The builder steps over rows that it cannot read: their objects may be whole all the same, because
the store has come round, or somebody has put them back. A gap may also be that of a segment which
is lost, while an object of the writer's that was built into it is still there.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from storage.recovery.recover_placement import place_between, without_repeated
from storage.recovery.recover_producers import Producers
from storage.recovery.recover_runs import NOT_BY_CHANCE, PlacedRun, mark_doubtful, runs_of
from storage.recovery.recover_scratch import FoundBatch, FoundSegment
from storage.recovery.recover_segments import gaps_between
from storage.recovery.recover_unbuilt import UNKNOWN, BuiltLog
from storage.upkeep.policies import UNLIMITED

_NEVER: Final = 2**63 - 1


class _Expectation(NamedTuple):
    """Where a batch should be.

    Attributes:
        offset: negative if nobody knows.
    """

    batch: FoundBatch
    offset: int


async def place_in_gaps(
    batches: Sequence[FoundBatch],
    built: BuiltLog,
    chosen: Sequence[FoundSegment],
    configs: Mapping[str, str],
    now_ms: int,
    markers: Collection[int] = (),
) -> tuple[list[PlacedRun], list[FoundBatch]]:
    """Return runs with their places, in offset order; none overlaps a segment.

    And batches that are nowhere, and have found no room.

    Args:
        batches: in the order of their commits.
        built: what `chosen` has.
        chosen: segments that do not overlap, in offset order; not empty.
        configs: of the topic: what retention takes away at once is left out.
        now_ms: Unix time.
        markers: offsets that ends of transactions have, which nothing else gets.

    Raises:
        BadObject, ObjectStoreUnavailable: no answer.
    """
    start = chosen[0].start_offset
    gaps = [(0, start - 1)] if start else []
    gaps += gaps_between(chosen)
    if not gaps:
        return [], []
    most_behind = 0 if "compact" in _cleanup_policy(configs) else NOT_BY_CHANCE
    expired_ms = _expired_ms(configs, sum(one.byte_length for one in chosen), now_ms)
    candidates: dict[tuple[int, int], list[FoundBatch]] = {gap: [] for gap in gaps}
    for one in _expectations(batches):
        gap = _gap_of(one, gaps, 0 if one.batch.is_told else most_behind)
        if gap is None or (gap[1] < start and one.batch.max_timestamp_ms < expired_ms):
            continue
        if one.batch.is_told or not await built.has_about(one.batch, one.offset):
            candidates[gap].append(one.batch)
    placed: list[PlacedRun] = []
    homeless: list[FoundBatch] = []
    for (first, last), found in candidates.items():
        kept = without_repeated(found, Producers())
        inside = [offset for offset in markers if first <= offset <= last]
        runs, others = place_between(kept, first, last + 1, inside)
        placed += runs
        homeless += (batch for run in others for batch in run.batches)
    return placed, homeless


def offsets_lost(
    gaps: Sequence[tuple[int, int]],
    log_start_offset: int,
    chosen: Sequence[FoundSegment],
    configs: Mapping[str, str] | None,
) -> list[tuple[int, int]]:
    """Return what nobody has, and nothing explains: before the segments, retention most often does.

    Args:
        gaps: between rows, that nobody has.
        log_start_offset: of the log as it is recovered.
        chosen: its segments.
        configs: of the topic; None if nobody knows them.
    """
    if configs is not None and _keeps_all(configs):
        return [(0, log_start_offset - 1), *gaps] if log_start_offset else [*gaps]
    return [gap for gap in gaps if gap[0] > chosen[0].start_offset]


def _keeps_all(configs: Mapping[str, str]) -> bool:
    if "delete" not in _cleanup_policy(configs):
        return True
    limits = (configs.get("retention.ms"), configs.get("retention.bytes", str(UNLIMITED)))
    return limits == (str(UNLIMITED), str(UNLIMITED))


def _cleanup_policy(configs: Mapping[str, str]) -> str:
    return configs.get("cleanup.policy", "delete")


def _expired_ms(configs: Mapping[str, str], size: int, now_ms: int) -> int:
    """Return before which time retention removes what lies before `size` bytes.

    A topic without limits of its own follows its cluster's, which are not known.
    """
    if "delete" not in _cleanup_policy(configs):
        return -_NEVER
    if 0 <= int(configs.get("retention.bytes", UNLIMITED)) <= size:
        return _NEVER
    retention_ms = int(configs.get("retention.ms", UNLIMITED))
    return now_ms - retention_ms if retention_ms >= 0 else -_NEVER


def _expectations(batches: Sequence[FoundBatch]) -> Iterator[_Expectation]:
    """Yield where batches should be; what a writer did not know follows from what it knew next."""
    runs = runs_of(batches)
    mark_doubtful(runs, None)
    starts: list[int] = []
    following = UNKNOWN
    for run in reversed(runs):
        is_told = run.expected_offset >= 0 and not run.is_doubtful
        following = run.expected_offset if is_told else max(following - run.count, UNKNOWN)
        starts.append(following)
    for run, start in zip(runs, reversed(starts), strict=True):
        offset = start
        for batch in run.batches:
            yield _Expectation(batch._replace(run_offset=start), offset)
            offset += batch.record_count if start >= 0 else 0


def _gap_of(
    one: _Expectation, gaps: Sequence[tuple[int, int]], most_behind: int
) -> tuple[int, int] | None:
    """Return the gap that a batch is in, or that begins just behind: after a marker, most often."""
    if one.offset < 0:
        return None
    at = bisect_left(gaps, one.offset + one.batch.record_count - 1, key=lambda gap: gap[1])
    return gaps[at] if at < len(gaps) and gaps[at][0] - one.offset <= most_behind else None
