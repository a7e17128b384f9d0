"""Many groups that are not in memory are taken with few statements."""

import asyncio
from itertools import chain, pairwise

import pytest
from kio.schema.errors import ErrorCode

from broker.groups.group_loads import LOADED_TOGETHER, LOADS_AT_A_TIME
from broker.groups.group_table import HELD_AT_MOST
from broker.refusals import Refusal
from coordinator.events import Leave, LeavingMember
from tests.broker.groups.group_world import World, refusal, until, world
from tests.support.held_groups import HeldGroups, at


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_groups_that_are_wanted_together_are_taken_together(
    here: World, store: HeldGroups
) -> None:
    # Given a store that is slow, and requests that name many groups, some of which are there
    topic_id = await store.topic()
    names = [f"g{number}" for number in range(5 * LOADED_TOGETHER + 1)]
    await store.take_groups(names[:3], create=True)
    store.takes.clear()
    store.hold()
    found = [here.groups.find(name) for name in names]
    commits = [here.commit(f"new-{number}", at(topic_id, p0=number)) for number in range(3)]
    await until(lambda: len(store.takes) == LOADS_AT_A_TIME)
    await turns(10)

    # Then few statements are under way, and each takes many
    assert len(store.takes) == LOADS_AT_A_TIME

    # And when the store answers, all are found, or made, with few more
    store.release()
    runners = await asyncio.gather(*found)
    await asyncio.gather(*commits)
    assert [runner is not None for runner in runners] == [True] * 3 + [False] * (len(names) - 3)
    assert await store.offsets("new-2") == {0: 2}
    assert max(len(together) for together in store.takes) == LOADED_TOGETHER
    assert len(store.takes) == 7
    assert sorted(chain.from_iterable(store.takes)) == sorted([*names, "new-0", "new-1", "new-2"])


@pytest.mark.parametrize("names", [["a", "held", "z"], ["held"]])
async def test_a_row_that_is_held_keeps_only_its_group(
    names: list[str], here: World, store: HeldGroups
) -> None:
    # Given groups that are there, of which somebody holds the row of one
    await store.take_groups(names, create=True)
    store.held_rows = {"held"}

    # When they are asked for together
    found = {name: asyncio.ensure_future(here.groups.find(name)) for name in names}

    # Then who asks for that one is to ask again, and the others are found
    assert await refusal(found.pop("held")) is ErrorCode.coordinator_not_available
    assert None not in await asyncio.gather(*found.values())

    # And once the row is free, that one is found, too
    store.held_rows.clear()
    assert await here.groups.find("held") is not None


async def test_many_rows_that_are_held_are_not_waited_for_one_after_the_other(
    here: World, store: HeldGroups
) -> None:
    # Given somebody who holds the rows of all groups
    names = [f"g{number}" for number in range(LOADED_TOGETHER)]
    store.held_rows = set(names)

    # When they are asked for together, then all are told soon
    found = [asyncio.ensure_future(here.groups.find(name)) for name in names]
    told = {await refusal(one) for one in found}
    assert told == {ErrorCode.coordinator_not_available}
    assert len(store.takes) == 1 + HELD_AT_MOST + 1


async def test_groups_that_are_taken_together_begin_one_after_the_other(
    here: World, store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.groups.group_table.CHARACTERS_PER_TURN", 1)
    # Given groups with members at a broker that is no more
    names = [f"g{number}" for number in range(20)]
    async with world(store) as there:
        for name in names:
            await there.stable(name)

    # When they are taken over together
    taking, counts = here.table.take_over(names), [0]
    while not taking.done():
        await asyncio.sleep(0)
        counts.append(len(here.table.running()))

    # Then others have their turns between any two of them
    assert counts[-1] == len(names)
    assert max(after - before for before, after in pairwise(counts)) == 1


async def test_a_takeover_that_is_given_up_refuses_those_it_has_not_come_to(
    here: World, store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.groups.group_table.CHARACTERS_PER_TURN", 1)
    # Given groups with members at a broker that is no more, of which some have been taken over, and
    # one of these is waited for again, by a delete
    topic_id = await store.topic()
    store.hold_deletes()
    async with world(store) as there:
        members = {name: await there.stable(name) for name in ("a", "b", "c", "d")}
    taking = here.table.take_over(members)
    beats = {name: asyncio.ensure_future(here.beat(name, members[name], 1)) for name in members}
    await until(lambda: here.table.get("a") is not None)
    forgotten = here.groups.delete_offsets("a", lambda _: list(at(topic_id, p0=1)))

    # When the takeover ends, then the others are refused, and no group waits for it any more
    taking.cancel()
    await asyncio.wait([taking])
    store.release_deletes()
    assert await forgotten
    answers = await asyncio.gather(*beats.values(), return_exceptions=True)
    refused = [one.code for one in answers if isinstance(one, Refusal)]
    assert refused == [ErrorCode.not_coordinator] * len(refused)
    assert 0 < len(refused) < len(members)
    for name, member in members.items():
        assert (await here.beat(name, member, 1)).error_code is ErrorCode.none


async def test_a_group_that_moved_while_it_waited_is_not_taken(
    here: World, store: HeldGroups
) -> None:
    store.hold()
    names = [f"g{number}" for number in range(3 * LOADED_TOGETHER)]
    found = [asyncio.ensure_future(here.groups.find(name)) for name in names]
    await until(lambda: len(store.takes) == LOADS_AT_A_TIME)
    here.ours = set()
    store.release()
    answers = await asyncio.gather(*found, return_exceptions=True)
    assert {one.code for one in answers if isinstance(one, Refusal)} == {ErrorCode.not_coordinator}
    assert len(answers) == len(names)
    assert len(store.takes) == LOADS_AT_A_TIME


async def test_those_that_wait_to_be_taken_are_answered_at_the_end(
    here: World, store: HeldGroups
) -> None:
    store.hold()
    found = [
        asyncio.ensure_future(here.groups.find(f"g{number}"))
        for number in range(3 * LOADED_TOGETHER)
    ]
    await until(lambda: len(store.takes) == LOADS_AT_A_TIME)
    here.upkeep.close()
    answers = await asyncio.gather(*found, return_exceptions=True)
    assert {getattr(one, "code", None) for one in answers} == {ErrorCode.not_coordinator}


async def test_a_bug_while_groups_are_taken_does_not_say_whose_it_is(
    here: World, store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def raises(group_ids: object, *, create: bool) -> None:
        raise ValueError(f"{group_ids} {create}")

    with monkeypatch.context() as patched:
        patched.setattr(store, "take_groups", raises)
        found = [asyncio.ensure_future(here.groups.find(name)) for name in ("a", "b")]
        answers = await asyncio.gather(*found, return_exceptions=True)
        assert {getattr(one, "code", None) for one in answers} == {
            ErrorCode.coordinator_not_available
        }
    assert await here.groups.find("a") is None


async def test_a_group_that_was_lost_is_taken_over_again_without_being_asked_for(
    here: World, store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a group of one whose member leaves while Postgres is away
    monkeypatch.setattr("broker.groups.group_retake.TAKE_AGAIN_AFTER_S", 0.001)
    member = await here.stable("g", session_timeout_ms=500)
    store.go_away()
    leaving = [LeavingMember(member_id=member, instance_id=None)]
    left = here.groups.handle("g", lambda token: Leave(token=token, members=leaving))
    with pytest.raises(Refusal) as refused:
        await left
    assert refused.value.code is ErrorCode.coordinator_not_available

    # When Postgres is back, and nobody asks
    store.come_back()

    # Then the group is loaded again, and its member is missed
    async with asyncio.timeout(10):
        while here.table.states() != {"Empty": 1}:
            await asyncio.sleep(0.001)
    (listed,) = [one async for one in here.groups.list()]
    assert (listed.state, listed.member_count) == ("Empty", 0)


async def test_a_group_whose_load_failed_is_taken_over_without_being_asked_for_again(
    here: World, store: HeldGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a group of another broker that is no more, and a request for it that waits
    monkeypatch.setattr("broker.groups.group_retake.TAKE_AGAIN_AFTER_S", 0.001)
    async with world(store) as there:
        member = await there.stable("g")
    takes = len(store.takes)
    store.hold()
    beat = here.beat("g", member, 1)
    await until(lambda: len(store.takes) > takes)

    # When the takeover passes over it, and then Postgres does not answer that request
    here.upkeep.membership_changed(0)
    await turns(10)
    store.go_away()
    store.release()
    with pytest.raises(Refusal):
        await beat
    store.come_back()

    # Then the group is loaded all the same
    async with asyncio.timeout(10):
        while here.table.get("g") is None:
            await asyncio.sleep(0.001)
