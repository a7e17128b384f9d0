"""Takeovers, moves to other brokers, idle groups and expiry."""

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs

from broker.groups import group_upkeep
from broker.groups.group_upkeep import EXPIRY_KEY
from coordinator.events import Protocol
from storage.metadata.groups import CommittedOffset
from tests.broker.groups.group_world import World, refusal, until, world
from tests.contracts.metadata_stores import create_partitions
from tests.coordinator.classic_script import subscription
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


async def test_a_group_that_was_away_for_a_moment_is_not_taken_for_one_that_there_is_not(
    here: World, store: HeldGroups
) -> None:
    # Given a group with an offset, and a request that waits for it
    await here.commit("g", at(await store.topic(), p0=42))
    await here.stable("g")
    here.ours = set()
    here.upkeep.membership_changed(0)
    here.ours = {"g", "h"}
    here.upkeep.membership_changed(1)
    store.hold()
    takes = len(store.takes)
    waiting = [
        asyncio.ensure_future(here.groups.may_fetch(name, member_id=None, member_epoch=-1))
        for name in ("g", "h")
    ]

    # When the group moves before the statement is sent, and is back before that is answered
    here.ours = {"h"}
    here.upkeep.membership_changed(2)
    await until(lambda: ["h"] in store.takes[takes:])
    here.ours = {"g", "h"}
    here.upkeep.membership_changed(3)
    store.release()

    # Then the request is sent away, since nobody has asked whether there is the group
    assert await refusal(waiting[0]) is ErrorCode.not_coordinator
    assert await waiting[1] is False
    assert await here.groups.may_fetch("g", member_id=None, member_epoch=-1) is True


async def test_a_takeover_passes_over_what_is_not_here_any_more(
    here: World, store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given two groups with members at a broker that is no more
    monkeypatch.setattr("broker.groups.group_retake.TAKE_AGAIN_AFTER_S", 0.001)
    async with world(store) as there:
        members = {name: await there.stable(name) for name in ("g", "h")}
    takes = len(store.takes)
    store.hold()

    # When one of them is away for the moment in which they are taken over
    here.table.take_over(["g", "h"])
    here.ours = {"h"}
    await until(lambda: ["h"] in store.takes[takes:])
    here.ours = {"g", "h"}
    beats = {name: here.beat(name, member, 1) for name, member in members.items()}
    store.release()

    # Then who asks for it meanwhile is sent away, and it is taken over without being asked for
    assert await refusal(beats["g"]) is ErrorCode.not_coordinator
    assert (await beats["h"]).error_code is NONE
    async with asyncio.timeout(10):
        while here.table.get("g") is None:
            await asyncio.sleep(0.001)
    assert (await here.beat("g", members["g"], 1)).error_code is NONE


async def test_what_was_taken_before_a_generation_was_missed_is_taken_again(
    here: World, store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a group that this broker has taken, but not told anybody of yet
    monkeypatch.setattr("broker.groups.group_retake.TAKE_AGAIN_AFTER_S", 0.001)
    here.upkeep.membership_changed(0)
    async with world(store) as there:
        old = await there.stable("g")
    here.topics.hold()
    early = here.beat("g", old, 1)
    await until(lambda: here.topics.waiting == 1)

    # When another one takes it, and changes it, while this one is called dead
    async with world(store) as there:
        await there.stable("g", member_id=old)
    here.upkeep.membership_changed(2)
    here.topics.release()

    # Then it is not served as it was then, and is taken over as it is now
    assert await refusal(early) is ErrorCode.not_coordinator
    async with asyncio.timeout(10):
        while here.table.get("g") is None:
            await asyncio.sleep(0.001)
    assert (await here.beat("g", old, 1)).error_code is ErrorCode.illegal_generation
    assert (await here.beat("g", old, 2)).error_code is NONE


async def test_members_that_died_with_their_coordinator_are_missed(
    here: World, store: HeldGroups
) -> None:
    # Given groups with members at a broker that is no more, and one without
    async with world(store) as there:
        for number in range(3):
            await there.stable(f"g{number}", session_timeout_ms=500)
        await there.commit("empty", at(await store.topic(), p0=1))
    takes = len(store.takes)

    # When this broker becomes their coordinator
    here.upkeep.membership_changed(0)

    # Then it takes all that have members, with one statement, and finds them silent
    await until(lambda: len(here.table.running()) == 3)
    assert sorted(store.takes[takes]) == ["g0", "g1", "g2"]
    assert len(store.takes) == takes + 1
    await until(lambda: here.table.states() == {"Empty": 3})
    listed = {one.group_id: one.state async for one in here.groups.list()}
    assert listed == {"empty": "Empty", "g0": "Empty", "g1": "Empty", "g2": "Empty"}


async def test_a_takeover_is_tried_until_postgres_answers(here: World, store: HeldGroups) -> None:
    async with world(store) as there:
        await there.stable("g")
    store.go_away()
    here.upkeep.membership_changed(0)
    await until(lambda: len(store.takes) >= 4)
    store.come_back()
    await until(lambda: here.table.get("g") is not None)


@pytest.mark.parametrize("together", [1, 2])
async def test_a_takeover_gets_past_a_row_that_is_held(
    together: int, here: World, store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given groups with members at a broker that is no more, and somebody who holds a row of theirs
    monkeypatch.setattr("broker.groups.group_upkeep.TAKEN_TOGETHER", together)
    monkeypatch.setattr("broker.groups.group_retake.TAKE_AGAIN_AFTER_S", 0.001)
    names = ["a", "b", "held", "y", "z"]
    async with world(store) as there:
        for name in names:
            await there.stable(name)
    store.held_rows = {"held"}

    # When they are taken over, then all the others are
    here.upkeep.membership_changed(0)
    await until(lambda: len(here.table.running()) == len(names) - 1)

    # And that one, which is tried again and again, once its row is free
    takes = len(store.takes)
    await until(lambda: store.takes[takes:].count(["held"]) > 1)
    store.held_rows.clear()
    await until(lambda: here.table.get("held") is not None)


async def test_old_offsets_are_looked_for_by_one_broker(
    store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given two brokers, one of which coordinates the key of expiry
    asked = expiry_rounds(store, monkeypatch)
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


async def test_who_joins_a_group_that_has_just_expired_comes_again(
    here: World, store: HeldGroups
) -> None:
    # Given a group whose time is over, that is in memory because somebody looked at it
    await store.take_groups(["g"], create=True)
    assert await here.groups.find("g") is not None
    assert await store.expire_offsets(-1) == 1

    # When a member joins, then it is sent to find the coordinator again, and joins one that is new
    assert await refusal(here.join("g")) is ErrorCode.not_coordinator
    await here.stable("g")


def expiry_rounds(store: HeldGroups, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return what gets an entry at the end of each look for what has expired."""
    ended: list[int] = []

    async def expire_offsets(retention_ms: int) -> int:
        ended.append(retention_ms)
        return 0

    monkeypatch.setattr(store, "expire_offsets", expire_offsets)
    return ended


async def test_offsets_of_topics_that_a_group_has_left_expire(
    store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given groups that read one of the two topics that they have committed: one is stable, one
    # waits for its member to join again, and of one nobody can tell what it reads
    (read,) = await create_partitions(store, 1, name="read")
    (left,) = await create_partitions(store, 1, name="left")
    both = {partition: CommittedOffset(offset=1) for partition in (read, left)}
    rounds = expiry_rounds(store, monkeypatch)
    async with world(store, retention_ms=-1, check_interval_ms=20) as here:  # all is old
        reads = [Protocol(name="range", metadata=subscription("read"))]
        ours = {"preparing", "stable", "unknown"}
        here.ours = ours | {EXPIRY_KEY}
        members = {}
        for group_id in sorted(ours):
            protocols = {} if group_id == "unknown" else {"protocols": reads}
            members[group_id] = await here.stable(group_id, **protocols)
        second = here.join("preparing", protocols=reads)
        for group_id, member in members.items():
            await here.commit(group_id, both, member_id=member, generation_id=1)

        # When that has been for long, then the stable one keeps what it reads
        await until(lambda: len(store._groups["stable"].offsets) == 1)
        assert store._groups["stable"].offsets.keys() == {read}

        # And the others all that they have
        before = len(rounds)
        await until(lambda: len(rounds) >= before + 2)
        assert not second.done()
        assert store._groups["preparing"].offsets == store._groups["unknown"].offsets == both


async def test_a_bug_in_the_expiry_of_one_group_leaves_the_others_theirs(
    store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given two groups that have left a topic, and a store that takes one of them badly
    expire, told = store.expire_left_topics, []

    async def expire_left_topics(group_id: str, *rest: Any) -> int:
        told.append(group_id)
        if group_id == "a":
            raise ValueError("not as text")
        return await expire(group_id, *rest)

    monkeypatch.setattr(store, "expire_left_topics", expire_left_topics)
    (left,) = await create_partitions(store, 1, name="left")
    reads = [Protocol(name="range", metadata=subscription("read"))]
    with capture_logs() as lines:
        async with world(store, retention_ms=-1, check_interval_ms=20) as here:
            for group_id in ("a", "b"):
                member = await here.stable(group_id, protocols=reads)
                offsets = {left: CommittedOffset(offset=1)}
                await here.commit(group_id, offsets, member_id=member, generation_id=1)

            # Then it is told, again and again, and the other one's offsets expire
            await until(lambda: not store._groups["b"].offsets and told.count("a") >= 2)
        assert {line["group_id"] for line in lines if line["log_level"] == "error"} == {"a"}
        assert store._groups["a"].offsets
