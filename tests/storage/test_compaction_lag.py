"""max.compaction.lag.ms (KIP-354): however little of a log is new, it is compacted in that time."""

from dataclasses import replace

import pytest

from storage.metadata.segments import TaskKind
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
