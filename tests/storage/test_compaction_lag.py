"""max.compaction.lag.ms (KIP-354): however little of a log is new, it is compacted in that time."""

from dataclasses import replace
from typing import cast

import pytest

from storage.gap_segment import gap_path
from storage.metadata.segments import SegmentSwap
from storage.metadata.tasks import TaskKind
from storage.objects.port import ObjectStore, Owned
from storage.segment_entry import SegmentEntry
from storage.upkeep.compaction_batches import empty_batch
from tests.storage.compaction_world import POLICY, World

HOUR_MS = 3_600_000
DAY_H = 24


async def a_clean_log(max_compaction_lag_ms: int) -> World:
    """Return a world with 200 kB that were compacted just now."""
    policy = replace(
        POLICY, min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=max_compaction_lag_ms
    )
    world = await World(policy).open()
    world.set_segment_bytes(1 << 20)
    for number in range(40):
        await world.produce([(b"%d" % number, b"v" * 5_000)])
    await world.build()
    await world.compact()
    return world


async def compact_if_due(world: World) -> bool:
    """Do what an upkeep process does; return whether the log was compacted."""
    compactor = world.compactor()
    await compactor.plan([world.partition])
    is_due = (await world.metadata.backlog())[TaskKind.COMPACT] > 0
    while await compactor.work_once():
        pass
    return is_due and compactor.counts.rounds > 0


@pytest.mark.parametrize("lag_h", [6, 24])
@pytest.mark.parametrize("timestamp_ms", [None, -1])
async def test_a_trickle_is_compacted_once_in_the_time(
    lag_h: int, timestamp_ms: int | None
) -> None:
    # Given a clean log, and a record of a client that says when it was made, or does not
    world = await a_clean_log(lag_h * HOUR_MS)
    await world.produce([(b"none", b"v" * 60_000)], timestamp_ms=timestamp_ms)
    await world.build()

    # When a record comes every hour, and is merged with those before it
    compacted_h = []
    for hour in range(1, 4 * DAY_H + 1):
        world.now_ms += HOUR_MS
        await world.produce([(b"1", b"x" * 20)], timestamp_ms=timestamp_ms)
        await world.build()
        if await compact_if_due(world):
            compacted_h.append(hour)

    # Then the log is compacted each time when what is new is that old, and an hour later at most
    assert compacted_h[0] <= lag_h + 1
    assert len(compacted_h) >= 4 * DAY_H // (lag_h + 1)
    assert len(compacted_h) <= 4 * DAY_H // lag_h


class MergedMeanwhile:
    """A store in which the small segment at the end is merged when a clean row is rewritten."""

    def __init__(self, world: World, clean: SegmentEntry) -> None:
        self._world = world
        self._clean = clean
        self._is_done = False

    async def get(self, path: str, start: int, length: int) -> Owned:
        if path == self._clean.path and not self._is_done:
            self._is_done = True
            await self._world.produce([(b"later", b"v" * 500)])
            await self._world.build()
        return await self._world.objects.get(path, start, length)

    async def put(self, path: str, parts: list[bytes]) -> None:
        await self._world.objects.put(path, parts)


@pytest.mark.parametrize(("age_ms", "left_age_ms"), [(HOUR_MS, HOUR_MS), (-HOUR_MS, 0), (None, 0)])
async def test_what_is_left_where_a_round_was_cut_short_is_younger_than_what_it_has_rewritten(
    age_ms: int | None, left_age_ms: int
) -> None:
    # Given a clean log, full segments behind it, of clients with whatever clock, and a small one
    world = await World().open()
    await world.produce([(b"clean", b"1")])
    await world.build()
    await world.compact()
    cleaned_ms = world.now_ms
    world.now_ms += DAY_H * HOUR_MS
    timestamp_ms = -1 if age_ms is None else world.now_ms - age_ms
    for _ in range(2):
        await world.produce([(b"full", b"v" * 1_850)], timestamp_ms=timestamp_ms)
    await world.build()
    await world.produce([(b"small", b"1"), (b"small", b"2")])
    await world.build()
    clean, *full, small = await world.rows()

    # When the small one is merged with what follows while the log is rewritten
    compactor = world.compactor(objects=cast("ObjectStore", MergedMeanwhile(world, clean)))
    await compactor.compact(world.partition)
    assert compactor.counts.lost == 1

    # Then it counts as no older than what is before it, as far as that is known
    (found,) = await world.metadata.cleanable_ranges([world.partition])
    assert found.compacted_offset == full[-1].end_offset + 1 == small.start_offset
    known = age_ms is not None
    assert found.dirty_since_ms == (world.now_ms - left_age_ms if known else cleaned_ms)


async def test_a_gap_is_not_as_young_as_the_recovery_that_found_it() -> None:
    # Given old records, and between them a gap that a recovery has closed just now
    world = await World(replace(POLICY, min_compaction_lag_ms=HOUR_MS)).open()
    world.set_segment_bytes(1)
    made_ms = world.now_ms - DAY_H * HOUR_MS
    await world.produce([(b"a", b"1")], timestamp_ms=made_ms)
    await world.produce_bytes(empty_batch(0))
    await world.produce([(b"a", b"2")], timestamp_ms=made_ms)
    await world.build()
    lost = (await world.rows())[1]
    path = gap_path("topics/users", 0, lost.start_offset, lost.end_offset)
    content = await world.objects.get(lost.path, 0, lost.start + lost.length + lost.index_length)
    await world.metadata.reserve_objects([path])
    await world.objects.put(path, [bytes(content)])
    assert await world.metadata.replace_segments(
        SegmentSwap(
            partition=world.partition,
            path=path,
            size=len(content),
            replaced=[lost],
            start=lost.start,
            length=lost.length,
            index_length=lost.index_length,
            max_timestamp_ms=-1,
        )
    )
    assert [row.is_gap for row in await world.rows()] == [False, True, False]

    # Then what is behind it is compacted
    await world.compact()
    assert [(one.offset, one.value) for one in await world.read() if one.key] == [(2, b"2")]


async def test_a_log_in_which_nothing_is_new_is_left_alone() -> None:
    world = await a_clean_log(HOUR_MS)
    world.now_ms += DAY_H * HOUR_MS
    assert not await compact_if_due(world)


async def test_a_log_that_was_never_compacted_is_however_dirty_it_may_be() -> None:
    world = await World(
        replace(POLICY, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR_MS)
    ).open()
    for value in (b"1", b"2"):
        await world.produce([(b"a", value)], timestamp_ms=-1)
    await world.build()
    assert await compact_if_due(world)


async def test_what_must_soon_be_compacted_is_soon_built() -> None:
    # Given a record that no segment has yet
    world = await World(replace(POLICY, max_compaction_lag_ms=60_000)).open()
    await world.produce([(b"a", b"1")])
    builder = world.builder()

    # When it is almost as old as records of its topic may be without a compaction
    world.now_ms += 59_999
    await builder.plan()
    assert not await builder.work_once()

    # When it is
    world.now_ms += 1
    await builder.plan()
    assert await builder.work_once()

    # Then it is in one
    assert all(row.index_length for row in await world.rows())


async def test_a_log_that_is_not_compacted_is_built_when_it_is_otherwise_due() -> None:
    world = await World(replace(POLICY, compact=False, max_compaction_lag_ms=60_000)).open()
    await world.produce([(b"a", b"1")])
    builder = world.builder()
    world.now_ms += 60_000
    await builder.plan()
    assert not await builder.work_once()
