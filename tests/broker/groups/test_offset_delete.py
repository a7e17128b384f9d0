"""OffsetDelete (KIP-496), over the wire and with a store that does not answer as it should."""

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from protocol.ids import Partition
from tests.broker.groups.conftest import MakeMember
from tests.broker.groups.group_world import World, refusal, world
from tests.support import virtual_time
from tests.support.group_members import stable
from tests.support.group_wire import (
    OFFSET_DELETE,
    codes,
    commit_request,
    committed,
    fetch_request,
    subscription,
)
from tests.support.held_groups import HeldGroups, at
from tests.support.wire import WireClient, request_entities

NONE = ErrorCode.none
UNKNOWN_TOPIC = ErrorCode.unknown_topic_or_partition
NOTHING = (-1, "")
SHORT_MS = 200
"""A session that ends while a test goes on."""
LONGER_S = 0.6


async def test_offsets_are_deleted_where_nobody_subscribes(
    client: WireClient, member: MakeMember, group: str, topic: str
) -> None:
    # Given a stable group that subscribes to one topic, and offsets of two
    other = f"{topic}-other"
    first = await member(protocols={"range": subscription(topic)})
    await stable(first)
    for name in (topic, other):
        await client.create_topic(name)
        assert await first.commit(name, {0: 5}) == [NONE]

    # When both are to be deleted, and one that there is not
    answer = await client.ask(delete_request(group, topic, other, f"{topic}-no"))

    # Then only the one that nobody needs is
    assert answer.error_code is NONE
    assert codes(answer) == [ErrorCode.group_subscribed_to_topic, NONE, UNKNOWN_TOPIC]
    answer = await client.ask(fetch_request(group, {topic: [0], other: [0]}))
    assert committed(answer) == {topic: {0: (5, "")}, other: {0: NOTHING}}


async def test_offsets_of_a_group_without_members_are_deleted(
    client: WireClient, group: str, topic: str
) -> None:
    await client.create_topic(topic)
    await client.ask(commit_request(group, {topic: {0: 5}}))
    assert codes(await client.ask(delete_request(group, topic))) == [NONE]
    assert committed(await client.ask(fetch_request(group, None))) == {}


async def test_offset_delete_refuses_what_it_cannot_judge(
    client: WireClient, member: MakeMember, group: str, topic: str
) -> None:
    for group_id, code in ((group, ErrorCode.group_id_not_found), ("", ErrorCode.invalid_group_id)):
        answer = await client.ask(delete_request(group_id, topic))
        assert (answer.error_code, answer.topics) == (code, ())
    await stable(await member(protocol_type="connect"))  # nobody knows what its members need
    assert (await client.ask(delete_request(group, topic))).error_code is ErrorCode.non_empty_group


async def test_a_delete_without_an_answer_does_no_harm_later(
    here: World, store: HeldGroups
) -> None:
    # Given an offset that is to be deleted by a statement that gets no answer
    topic_id = await store.topic()
    await here.commit("g", at(topic_id, p0=1))
    store.go_away()
    deleted = here.groups.delete_offsets("g", lambda _: [Partition(topic_id, 0)])
    assert await refusal(deleted) is ErrorCode.coordinator_not_available
    store.come_back()

    # When a member commits, and then the server gets round to that statement
    member = await here.stable("g")
    await here.commit("g", at(topic_id, p0=200), member_id=member, generation_id=1)
    (delete,) = store.late_deletes

    # Then it is fenced
    assert await delete() is False
    assert await store.offsets("g") == {0: 200}


async def test_after_a_delete_that_was_not_done_the_group_goes_on(
    here: World, store: HeldGroups
) -> None:
    topic_id = await store.topic()
    member = await here.stable("g")
    await here.commit("g", at(topic_id, p0=1), member_id=member, generation_id=1)
    takes = len(store.takes)
    store.lock()
    deleted = here.groups.delete_offsets("g", lambda _: [Partition(topic_id, 0)])
    beat = here.beat("g", member, 1)
    assert await refusal(deleted) is ErrorCode.coordinator_not_available
    assert (await beat).error_code is NONE
    assert (await store.offsets("g"), len(store.takes)) == ({0: 1}, takes)


async def test_what_is_committed_after_a_delete_began_stays(here: World, store: HeldGroups) -> None:
    # Given a delete that is held up
    topic_id = await store.topic()
    member = await here.stable("g")
    await here.commit("g", at(topic_id, p0=1), member_id=member, generation_id=1)
    store.hold_deletes()
    deleted = here.groups.delete_offsets("g", lambda _: [Partition(topic_id, 0)])

    # When a member commits before that is done
    commit = here.commit("g", at(topic_id, p0=200), member_id=member, generation_id=1)
    for _ in range(10):
        await asyncio.sleep(0)
    store.release_deletes()

    # Then its offset is there in the end
    assert (await deleted, await commit) == (True, frozenset())
    assert await store.offsets("g") == {0: 200}


async def test_deletes_that_wait_for_a_group_are_done_one_after_the_other(
    here: World, store: HeldGroups
) -> None:
    # Given a group that is not in memory yet, and requests that wait for it
    topic_id = await store.topic()
    async with world(store) as there:
        await there.commit("g", at(topic_id, p0=1, p1=2))
    store.hold()
    one = here.groups.delete_offsets("g", lambda _: [Partition(topic_id, 0)])
    two = here.groups.delete_offsets("g", lambda _: [Partition(topic_id, 1)])
    commit = here.commit("g", at(topic_id, p1=3))
    store.release()

    # Then each finds the group as those before left it
    assert (await one, await two, await commit) == (True, True, frozenset())
    assert await store.offsets("g") == {1: 3}
    deleted, commit = here.groups.delete("g"), here.commit("g", at(topic_id, p2=4))
    assert (await deleted, await commit) == (NONE, frozenset())
    assert await store.offsets("g") == {2: 4}


async def test_a_group_that_moves_while_offsets_are_deleted_is_not_served_here(
    here: World, store: HeldGroups
) -> None:
    # Given a group whose requests wait for a delete
    topic_id = await store.topic()
    member = await here.stable("g")
    store.hold_deletes()
    deleted = here.groups.delete_offsets("g", lambda _: [Partition(topic_id, 0)])
    commit = here.commit("g", at(topic_id, p0=1), member_id=member, generation_id=1)

    # When it moves, and when it comes back
    here.ours = set()
    here.upkeep.membership_changed(0)
    store.release_deletes()
    assert await refusal(deleted) is ErrorCode.not_coordinator
    assert await refusal(commit) is ErrorCode.not_coordinator
    here.ours = None
    here.upkeep.membership_changed(1)
    assert (await here.beat("g", member, 1)).error_code is NONE


def test_members_are_heard_while_offsets_are_deleted() -> None:
    virtual_time.run(members_are_heard_while_offsets_are_deleted(HeldGroups()))


async def members_are_heard_while_offsets_are_deleted(store: HeldGroups) -> None:
    async with world(store) as here:
        # Given a member whose session is short, and a delete that takes longer
        topic_id = await store.topic()
        member = await here.stable("g", session_timeout_ms=SHORT_MS)
        store.hold_deletes()
        deleted = here.groups.delete_offsets("g", lambda _: [Partition(topic_id, 0)])

        # When it heartbeats meanwhile, then it is answered
        for _ in range(12):
            assert (await here.beat("g", member, 1)).error_code is NONE
            await asyncio.sleep(LONGER_S / 12)

        # And it is a member still when that is done
        store.release_deletes()
        assert await deleted is True
        assert (await here.beat("g", member, 1)).error_code is NONE


def test_no_time_passes_for_who_waits_for_a_delete() -> None:
    virtual_time.run(no_time_passes_for_who_waits_for_a_delete(HeldGroups()))


async def no_time_passes_for_who_waits_for_a_delete(store: HeldGroups) -> None:
    async with world(store, consumer_session_ms=SHORT_MS) as here:
        # Given members that have to sync, and to heartbeat, within a short session
        topic_id = await store.topic()
        joined = await here.join("g", session_timeout_ms=SHORT_MS)
        epoch = (await here.consumer_beat("modern", "m", 0)).member_epoch

        # When they do, and deletes that came before take longer
        store.hold_deletes()
        deleted = [
            here.groups.delete_offsets(group, lambda _: [Partition(topic_id, 0)])
            for group in ("g", "g", "modern", "modern")
        ]
        synced = here.sync("g", joined.member_id, 1)
        beat = here.consumer_beat("modern", "m", epoch)
        await asyncio.sleep(LONGER_S)
        store.release_deletes()

        # Then they are members still
        assert await asyncio.gather(*deleted) == [True] * 4
        assert (await synced).error_code is NONE
        assert (await beat).error_code is NONE

        # And if they are not heard of again, they are no more
        await asyncio.sleep(LONGER_S)
        unknown = ErrorCode.unknown_member_id
        assert (await here.beat("g", joined.member_id, 1)).error_code is unknown
        assert (await here.consumer_beat("modern", "m", epoch)).error_code is unknown


def delete_request(group: str, *topics: str) -> Any:
    module = request_entities(OFFSET_DELETE, 0)
    partition = module.OffsetDeleteRequestPartition(partition_index=0)
    asked = tuple(
        module.OffsetDeleteRequestTopic(name=name, partitions=(partition,)) for name in topics
    )
    return module.OffsetDeleteRequest(group_id=group, topics=asked)
