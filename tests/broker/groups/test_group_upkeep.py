"""Takeovers, moves to other brokers, idle groups and expiry."""

import pytest
from kio.schema.errors import ErrorCode

from broker import group_upkeep
from broker.group_upkeep import EXPIRY_KEY
from tests.broker.groups.group_world import World, refusal, until, world
from tests.support.held_groups import HeldGroups, at

NONE = ErrorCode.none


async def test_what_moves_to_another_broker_is_refused_here(here: World, store: HeldGroups) -> None:
    # Given a group, a member parked in it, and one that waits for another group
    member = await here.stable("g")
    parked = here.join("g")
    store.hold()
    loading = here.beat("h", "m", 1)
    await until(lambda: len(store.takes) == 2)

    # When both groups move
    here.ours = set()
    here.upkeep.membership_changed(0)
    store.release()

    # Then everybody is sent away, at once, and later
    assert await refusal(parked) is ErrorCode.not_coordinator
    assert await refusal(loading) is ErrorCode.not_coordinator
    assert await refusal(here.beat("g", member, 1)) is ErrorCode.not_coordinator

    # And when they move back, the generation is still there
    here.ours = None
    here.upkeep.membership_changed(1)
    assert (await here.beat("g", member, 1)).error_code is NONE


async def test_who_missed_a_generation_of_the_cluster_takes_its_groups_again(
    here: World, store: HeldGroups
) -> None:
    # Given a group that another broker took and changed, while this one was paused
    here.upkeep.membership_changed(0)
    old = await here.stable("g")
    async with world(store) as there:
        await there.stable("g", member_id=old)
        assert (await there.beat("g", old, 2)).error_code is NONE

    # When this one is back, and sees that it missed a generation of brokers
    here.upkeep.membership_changed(2)

    # Then it goes on with what the other one left
    assert (await here.beat("g", old, 2)).error_code is NONE
    assert (await here.beat("g", old, 1)).error_code is ErrorCode.illegal_generation


async def test_members_that_died_with_their_coordinator_are_missed(
    here: World, store: HeldGroups
) -> None:
    # Given groups with members at a broker that is no more, and one without
    async with world(store) as there:
        for number in range(3):
            await there.stable(f"g{number}", session_timeout_ms=100)
        await there.commit("empty", at(await store.topic(), p0=1))
    takes = len(store.takes)

    # When this broker becomes their coordinator
    here.upkeep.membership_changed(0)

    # Then it takes all that have members, with one statement, and finds them silent
    await until(lambda: len(here.table.running()) == 3)
    assert sorted(store.takes[takes]) == ["g0", "g1", "g2"]
    assert len(store.takes) == takes + 1
    await until(lambda: here.table.states() == {"Empty": 3})
    listed = {one.group_id: one.state for one in await here.groups.list()}
    assert listed == {"empty": "Empty", "g0": "Empty", "g1": "Empty", "g2": "Empty"}


async def test_a_takeover_is_tried_until_postgres_answers(here: World, store: HeldGroups) -> None:
    async with world(store) as there:
        await there.stable("g")
    store.go_away()
    here.upkeep.membership_changed(0)
    await until(lambda: len(store.takes) >= 4)
    store.come_back()
    await until(lambda: here.table.get("g") is not None)


async def test_old_offsets_are_looked_for_by_one_broker(
    store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given two brokers, one of which coordinates the key of expiry
    asked: list[int] = []

    async def expire_offsets(retention_ms: int) -> int:
        asked.append(retention_ms)
        return 1

    monkeypatch.setattr(store, "expire_offsets", expire_offsets)
    async with (
        world(store, retention_ms=7, check_interval_ms=1) as here,
        world(store, retention_ms=9, check_interval_ms=1) as there,
    ):
        here.ours, there.ours = {EXPIRY_KEY}, set()

        # Then that one looks, again and again
        await until(lambda: len(asked) >= 3)
        assert set(asked) == {7}


async def test_groups_that_nobody_asks_for_leave_memory(
    store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a group with a member, and one without
    monkeypatch.setattr(group_upkeep, "LOOK_FOR_IDLE_S", 0.001)
    monkeypatch.setattr(group_upkeep, "IDLE_MS", 1)
    async with world(store) as here:
        member = await here.stable("g")
        await here.commit("empty", at(await store.topic(), p0=1))

        # Then the latter is dropped, and comes back when it is asked for
        await until(lambda: here.table.get("empty") is None)
        assert here.table.get("g") is not None
        assert await here.groups.find("empty") is not None
        assert (await here.beat("g", member, 1)).error_code is NONE
