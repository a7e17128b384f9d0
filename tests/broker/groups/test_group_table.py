"""How groups get into memory and out of it, and what those are told who wait meanwhile."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from coordinator.group import Group
from tests.broker.groups.group_world import World, refusal, until, world
from tests.support.held_groups import HeldGroups, at

NONE = ErrorCode.none


async def test_a_group_is_taken_once_and_requests_keep_their_order(
    here: World, store: HeldGroups
) -> None:
    # Given a store that is slow to hand over a group
    topic_id = await store.topic()
    store.hold()

    # When three commits wait for it, then it comes, and another follows at once
    commits = [here.commit("g", at(topic_id, p0=offset)) for offset in (1, 2, 3)]
    await until(lambda: len(store.takes) == 1)
    store.release()
    await until(lambda: here.table.get("g") is not None)
    commits.append(here.commit("g", at(topic_id, p0=4)))
    await asyncio.gather(*commits)

    # Then it was taken with one statement, and the last commit counts
    assert store.takes == [["g"]]
    assert await store.offsets("g") == {0: 4}


async def test_a_group_comes_into_being_with_the_first_who_may_make_it(
    here: World, store: HeldGroups
) -> None:
    # Given a heartbeat and a join that wait for a group that there is not
    store.hold()
    beat, joined = here.beat("g", "m", 1), here.join("g")
    late = here.beat("g", "m", 1)
    store.release()

    # Then the one before the join meets no group, the one after it does
    assert await beat is None
    assert (await joined).generation_id == 1
    assert (await late).error_code is ErrorCode.unknown_member_id


async def test_who_cannot_be_served_is_told_to_try_again(here: World, store: HeldGroups) -> None:
    store.go_away()
    waiting = [here.beat("g", "m", 1), here.join("g")]
    for answer in waiting:
        assert await refusal(answer) is ErrorCode.coordinator_not_available
    store.come_back()
    assert (await here.join("g")).error_code is NONE


async def test_nobody_is_told_of_a_generation_before_it_is_saved(
    here: World, store: HeldGroups
) -> None:
    # Given a group of one, and a slow store
    member = await here.stable("g")
    saved = len(store.writes)
    store.hold()

    # When another joins and the first joins again, a save is under way and nobody is answered
    joins = [here.join("g"), here.join("g", member)]
    await until(lambda: len(store.writes) > saved)
    beat = here.beat("g", member, 1)
    await asyncio.sleep(0)
    assert not any(join.done() for join in joins)

    # Then all are, once it is saved
    store.release()
    assert [(await join).generation_id for join in joins] == [2, 2]
    assert (await beat).error_code in {ErrorCode.illegal_generation, NONE}


async def test_heartbeats_write_nothing(here: World, store: HeldGroups) -> None:
    member = await here.stable("g")
    before = len(store.writes), len(store.takes)
    for _ in range(100):
        assert (await here.beat("g", member, 1)).error_code is NONE
    assert (len(store.writes), len(store.takes)) == before


async def test_a_group_is_deleted_while_nobody_can_get_at_it(
    here: World, store: HeldGroups
) -> None:
    # Given a group with an offset
    topic_id = await store.topic()
    await here.commit("g", at(topic_id, p0=1))

    # When it is deleted while somebody joins
    deleted = asyncio.ensure_future(here.groups.delete("g"))
    joined = here.join("g")

    # Then the join makes a new one
    assert await deleted is NONE
    assert (await joined).generation_id == 1
    assert await store.offsets("g") == {}


async def test_a_bug_with_one_group_costs_only_that_one(
    here: World, monkeypatch: pytest.MonkeyPatch, store: HeldGroups
) -> None:
    # Given two groups
    members = {name: await here.stable(name) for name in ("broken", "fine")}

    # When the machine of one raises
    def raises(_: object, event: object, *, now_ms: int) -> None:
        raise RuntimeError(f"{event} {now_ms}")

    with monkeypatch.context() as patched:
        patched.setattr(Group, "handle", raises)
        with pytest.raises(RuntimeError):
            here.beat("broken", members["broken"], 1)

    # Then both go on, that one from what was saved
    for name, member in members.items():
        assert (await here.beat(name, member, 1)).error_code is NONE


async def test_after_a_bug_only_who_caused_it_is_told_of_it(
    here: World, monkeypatch: pytest.MonkeyPatch, store: HeldGroups
) -> None:
    # Given a member whose join waits, and two requests for a group that is being loaded
    await here.stable("g")
    parked = here.join("g")
    await here.stable("h")
    async with world(store) as there:
        store.hold()
        waiting = [there.beat("h", "m", 1), there.beat("h", "m", 1)]
        await until(lambda: len(store.takes) == 3)

        # When the machines raise
        def raises(_: object, event: object, *, now_ms: int) -> None:
            raise RuntimeError(f"{event} {now_ms}")

        raised: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
        with monkeypatch.context() as patched:
            patched.setattr(Group, "handle", raises)
            with pytest.raises(RuntimeError):
                here.beat("g", "m", 1)
            store.release()

            # Then those who only waited are sent to the coordinator again
            assert await refusal(parked) is ErrorCode.coordinator_not_available
            assert [await refusal(one) for one in waiting] == [
                ErrorCode.unknown_server_error,
                ErrorCode.coordinator_not_available,
            ]
        assert [type(one) for one in raised] == [RuntimeError]
        loop.set_exception_handler(None)


async def test_what_was_committed_before_is_fetched(here: World, store: HeldGroups) -> None:
    # Given a commit that is under way
    topic_id = await store.topic()
    await here.commit("g", at(topic_id, p0=1))
    store.hold()
    commit = here.commit("g", at(topic_id, p0=2))
    fetch = asyncio.ensure_future(here.groups.may_fetch("g", member_id=None, member_epoch=-1))
    await asyncio.sleep(0)
    assert not fetch.done()

    # Then a fetch behind it waits for it
    store.release()
    assert await fetch is True
    assert await commit == frozenset()


async def test_a_member_fetches_at_the_epoch_that_it_was_told_of(
    here: World, store: HeldGroups
) -> None:
    # Given a member whose next epoch is being saved
    assert (await here.consumer_beat("g", "m", 0)).member_epoch == 1
    await here.consumer_beat("g", "another", 0)
    store.hold()
    beat = here.consumer_beat("g", "m", 1)

    # When it fetches by the one that it knows
    fetched = asyncio.ensure_future(here.groups.may_fetch("g", member_id="m", member_epoch=1))
    await asyncio.sleep(0)
    assert not beat.done()
    store.release()

    # Then it may, and not any more once it has been told of the next one
    assert await fetched is True
    assert (await beat).member_epoch == 2
    late = here.groups.may_fetch("g", member_id="m", member_epoch=1)
    assert await refusal(late) is ErrorCode.stale_member_epoch


async def test_at_the_end_everybody_is_answered(here: World, store: HeldGroups) -> None:
    await here.stable("g")
    parked = here.join("g")
    store.hold()
    loading = here.join("h")
    await asyncio.sleep(0)
    here.upkeep.close()
    for answer in (parked, loading, here.join("g")):
        assert await refusal(answer) is ErrorCode.not_coordinator


async def test_what_happens_is_counted(here: World, store: HeldGroups) -> None:
    topic_id = await store.topic()
    member = await here.stable("g")
    await here.commit("g", at(topic_id, p0=1), member_id=member, generation_id=1)
    await store.take_elsewhere("g")
    lost = here.commit("g", at(topic_id, p0=1), member_id=member, generation_id=1)
    assert await refusal(lost) is ErrorCode.not_coordinator
    await here.beat("g", member, 1)
    assert here.table.states() == {"Stable": 1}
    counters = here.metrics.rebalances, here.metrics.offset_commits, here.metrics.fenced_groups
    assert [one._value.get() for one in counters] == [1, 2, 1]


async def test_a_zombie_coordinator_is_fenced_and_its_members_go_on_elsewhere(
    here: World, store: HeldGroups
) -> None:
    # Given a group that another broker has taken over, without this one knowing
    topic_id = await store.topic()
    member = await here.stable("g")
    parked = here.join("g")
    async with world(store) as there:
        assert (await there.beat("g", member, 1)).error_code is NONE

        # When the member commits here, that is refused, and so is who waits here
        zombie = here.commit("g", at(topic_id, p0=9), member_id=member, generation_id=1)
        assert await refusal(zombie) is ErrorCode.not_coordinator
        assert await refusal(parked) is ErrorCode.not_coordinator

        # Then nothing of it was written, and there it commits
        assert await store.offsets("g") == {}
        await there.commit("g", at(topic_id, p0=5), member_id=member, generation_id=1)
        assert await store.offsets("g") == {0: 5}


async def test_after_a_write_without_an_answer_the_group_is_taken_anew(
    here: World, store: HeldGroups
) -> None:
    # Given a stable group, and a member that waits in a join
    topic_id = await store.topic()
    member = await here.stable("g")
    parked = here.join("g")

    # When Postgres does not answer a commit
    store.go_away()
    commit = here.commit("g", at(topic_id, p0=9), member_id=member, generation_id=1)
    assert await refusal(commit) is ErrorCode.coordinator_not_available
    assert await refusal(parked) is ErrorCode.coordinator_not_available

    # Then afterwards the member goes on in the same generation, under a new owner epoch
    store.come_back()
    assert (await here.beat("g", member, 1)).error_code is NONE
    await here.commit("g", at(topic_id, p0=10), member_id=member, generation_id=1)
    epochs = [write.owner_epoch for call in store.writes for write in call]
    assert epochs[-1] > epochs[0]
    assert await store.offsets("g") == {0: 10}
