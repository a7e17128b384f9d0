"""OffsetCommit, OffsetFetch and OffsetDelete over the wire, in their oldest and newest versions."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.groups.conftest import MakeMember
from tests.support.group_members import stable
from tests.support.group_wire import (
    OFFSET_FETCH,
    codes,
    commit_request,
    committed,
    consumer_heartbeat_request,
    fetch_request,
    named,
    new_member_id,
)
from tests.support.wire import WireClient, milliseconds, request_entities

NONE = ErrorCode.none
UNKNOWN_TOPIC = ErrorCode.unknown_topic_or_partition
FIRST_WITH_TOPIC_IDS = 10
NOTHING = (-1, "")
LONG_MAX = 2**63 - 1


@pytest.mark.parametrize("commit", [2, 5, 6, 9, 10])
@pytest.mark.parametrize("fetch", [1, 5, 8, 10])
async def test_what_is_committed_is_fetched(
    client: WireClient, group: str, topic: str, commit: int, fetch: int
) -> None:
    # Given a topic with three partitions
    await client.create_topic(topic, 3)
    topic_id = await client.topic_id(topic)

    # When offsets of two are committed, with a note, by nobody's member
    to = topic_id if commit >= FIRST_WITH_TOPIC_IDS else topic
    offsets = {0: (5, "note"), 2: (7, "")}
    assert codes(await client.ask(commit_request(group, {to: offsets}, version=commit))) == [0, 0]

    # Then that is what the group has; the third is -1 without an error
    of = topic_id if fetch >= FIRST_WITH_TOPIC_IDS else topic
    answer = await client.ask(fetch_request(group, {of: [0, 1, 2, 9]}, version=fetch))
    assert committed(answer) == {of: {0: (5, "note"), 1: NOTHING, 2: (7, ""), 9: NOTHING}}
    if fetch >= 5:
        first = (answer.groups[0] if fetch >= 8 else answer).topics[0].partitions[0]
        assert first.committed_leader_epoch == (7 if commit >= 6 else -1)


@pytest.mark.parametrize("version", [2, 7, 9, 10])
async def test_null_topics_are_all_that_is_committed(
    client: WireClient, group: str, topic: str, version: int
) -> None:
    # Given offsets of two topics, one of which is deleted
    for name in (topic, f"{topic}-gone"):
        await client.create_topic(name)
        await client.ask(commit_request(group, {name: {0: 3}}))
    topic_id = await client.topic_id(topic)
    module = request_entities(20, 6)
    deletion = module.DeleteTopicState(name=f"{topic}-gone", topic_id=None)
    await client.ask(named(20, 6, topics=(deletion,), timeout=milliseconds(1000)))

    # When all are asked for, only the other one's are there
    answer = await client.ask(fetch_request(group, None, version=version))
    assert committed(answer) == {
        topic_id if version >= FIRST_WITH_TOPIC_IDS else topic: {0: (3, "")}
    }


async def test_a_topic_made_again_has_no_committed_offset(
    client: WireClient, group: str, topic: str
) -> None:
    await client.create_topic(topic)
    await client.ask(commit_request(group, {topic: {0: 3}}))
    module = request_entities(20, 6)
    deletion = module.DeleteTopicState(name=topic, topic_id=None)
    await client.ask(named(20, 6, topics=(deletion,), timeout=milliseconds(1000)))
    await client.create_topic(topic)
    assert committed(await client.ask(fetch_request(group, {topic: [0]}))) == {topic: {0: NOTHING}}


async def test_several_groups_are_fetched_at_once(
    client: WireClient, group: str, topic: str
) -> None:
    # Given two groups with offsets, and one that there is not
    await client.create_topic(topic)
    for number in (1, 2):
        await client.ask(commit_request(f"{group}-{number}", {topic: {0: number}}))

    # When all three are asked for in one request
    module = request_entities(OFFSET_FETCH, 8)
    asked = module.OffsetFetchRequestTopics(name=topic, partition_indexes=(0,))
    groups = tuple(
        module.OffsetFetchRequestGroup(group_id=f"{group}-{number}", topics=(asked,))
        for number in (1, 2, 3)
    )
    answer = await client.ask(module.OffsetFetchRequest(groups=groups, require_stable=True))

    # Then each has its own
    assert [one.group_id for one in answer.groups] == [f"{group}-{number}" for number in (1, 2, 3)]
    offsets = [one.topics[0].partitions[0].committed_offset for one in answer.groups]
    assert offsets == [1, 2, -1]

    # When all topics of one are asked for again and again, then they are answered once
    everything, named_again = (
        module.OffsetFetchRequestGroup(group_id=f"{group}-1", topics=None),
        groups[0],
    )
    again = (everything, named_again, everything, named_again)
    answer = await client.ask(module.OffsetFetchRequest(groups=again, require_stable=True))
    assert [len(one.topics) for one in answer.groups] == [1, 1, 1]


async def test_each_partition_answers_for_itself(
    client: WireClient, group: str, topic: str
) -> None:
    await client.create_topic(topic, 2)
    offsets = {0: (1, ""), 1: (1, "x" * 11), 2: (1, "")}  # offset.metadata.max.bytes=10
    answer = await client.ask(commit_request(group, {topic: offsets, f"{topic}-no": {0: 1}}))
    too_large = ErrorCode.offset_metadata_too_large
    assert codes(answer) == [NONE, too_large, UNKNOWN_TOPIC, UNKNOWN_TOPIC]
    answer = await client.ask(fetch_request(group, None))
    assert committed(answer) == {topic: {0: (1, "")}}


async def test_topics_by_unknown_ids_are_told_of(
    client: WireClient, group: str, topic: str
) -> None:
    unknown = UUID(int=77)
    answer = await client.ask(commit_request(group, {unknown: {0: 1}}, version=10))
    assert codes(answer) == [ErrorCode.unknown_topic_id]
    answer = await client.ask(fetch_request(group, {unknown: [0]}, version=10))
    assert codes(answer.groups[0]) == [ErrorCode.unknown_topic_id]


@pytest.mark.parametrize("version", [2, 8])
async def test_to_a_group_that_is_not_there_only_nobody_commits(
    client: WireClient, group: str, topic: str, version: int
) -> None:
    await client.create_topic(topic)
    request = commit_request(
        group, {topic: {0: 1}}, version=version, member_id="m", generation_id=5
    )
    assert codes(await client.ask(request)) == [ErrorCode.illegal_generation]
    request = commit_request(group, {topic: {0: 1}}, version=9, member_id="m", generation_id=5)
    assert codes(await client.ask(request)) == [ErrorCode.group_id_not_found]


async def test_a_group_without_a_name_may_have_offsets(client: WireClient, topic: str) -> None:
    # Kafka allows that to clients older than groups
    await client.create_topic(topic)
    assert codes(await client.ask(commit_request("", {topic: {0: 4}}))) == [NONE]
    assert committed(await client.ask(fetch_request("", {topic: [0]}))) == {topic: {0: (4, "")}}


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("retention_time_ms", [-1, 0, LONG_MAX, -LONG_MAX - 1])
async def test_retention_times_of_old_clients_are_ignored(
    client: WireClient, group: str, topic: str, version: int, retention_time_ms: int
) -> None:
    # Given a request as a Java client of 2017 sends it: kept for ever is Long.MAX_VALUE
    await client.create_topic(topic)
    name, me = topic.encode(), group.encode()
    frame = b"".join(
        (
            (8).to_bytes(2) + version.to_bytes(2) + (9).to_bytes(4) + b"\xff\xff",
            len(me).to_bytes(2) + me + b"\xff\xff\xff\xff" + b"\0\0",
            retention_time_ms.to_bytes(8, signed=True),
            (1).to_bytes(4) + len(name).to_bytes(2) + name,
            (1).to_bytes(4) + (0).to_bytes(4) + (6).to_bytes(8) + b"\0\0",
        )
    )

    # When it is sent, it is taken
    await client.send(len(frame).to_bytes(4) + frame)
    _, answer = await client.receive(commit_request(group, {topic: {0: 6}}, version=version))
    assert codes(answer) == [NONE]
    assert committed(await client.ask(fetch_request(group, {topic: [0]}))) == {topic: {0: (6, "")}}


async def test_only_the_present_generation_commits(
    client: WireClient, member: MakeMember, group: str, topic: str
) -> None:
    # Given a stable group
    await client.create_topic(topic)
    first = await member()
    await stable(first)
    assert await first.commit(topic, {0: 10}) == [NONE]

    async def commit(**values: Any) -> list[int]:
        return codes(await client.ask(commit_request(group, {topic: {0: 99}}, **values)))

    # When others try, or the same member of another generation
    me = first.member_id
    assert await commit(member_id=me, generation_id=0) == [ErrorCode.illegal_generation]
    assert await commit(member_id="zombie", generation_id=1) == [ErrorCode.unknown_member_id]
    assert await commit() == [ErrorCode.unknown_member_id]  # nobody, while there are members

    # Then nothing has changed
    assert committed(await client.ask(fetch_request(group, {topic: [0]}))) == {topic: {0: (10, "")}}


async def test_while_the_leader_assigns_nobody_commits(
    client: WireClient, member: MakeMember, group: str, topic: str
) -> None:
    await client.create_topic(topic)
    first = await member()
    await first.join()
    assert await first.commit(topic, {0: 10}) == [ErrorCode.rebalance_in_progress]


async def test_members_of_consumer_groups_name_their_epoch(
    client: WireClient, group: str, topic: str
) -> None:
    # Given a consumer group (KIP-848) with one member
    await client.create_topic(topic)
    me = new_member_id()
    joining = consumer_heartbeat_request(group, me, 0, subscribed_topic_names=(topic,))
    epoch = (await client.ask(joining)).member_epoch

    async def commit(version: int, epoch: int, member_id: str = me) -> list[int]:
        request = commit_request(
            group, {topic: {0: 5}}, version=version, member_id=member_id, generation_id=epoch
        )
        return codes(await client.ask(request))

    async def fetch(member_id: str, epoch: int) -> Any:
        request = fetch_request(group, {topic: [0]}, member_id=member_id, member_epoch=epoch)
        (answer,) = (await client.ask(request)).groups
        return answer

    # Then it commits and fetches by its present epoch
    assert await commit(9, epoch) == [NONE]
    answer = await fetch(me, epoch)
    assert (answer.error_code, codes(answer)) == (NONE, [NONE])

    # And by no other
    assert await commit(9, epoch + 1) == [ErrorCode.stale_member_epoch]
    assert await commit(8, epoch + 1) == [ErrorCode.unsupported_version]  # 113 came with v9
    assert await commit(9, epoch, "stranger") == [ErrorCode.unknown_member_id]
    for member_id, wrong, code in (
        (me, epoch + 1, ErrorCode.stale_member_epoch),
        ("stranger", epoch, ErrorCode.unknown_member_id),
    ):
        answer = await fetch(member_id, wrong)
        assert (answer.error_code, answer.topics) == (code, ())


async def test_a_commit_on_its_way_while_its_member_moves_on_is_good_for_what_that_keeps(
    client: WireClient, group: str, topic: str
) -> None:
    # Given a member that had both partitions, gave one up, and is at its next epoch
    await client.create_topic(topic, partitions=2)
    topic_id = await client.topic_id(topic)
    me, other = new_member_id(), new_member_id()

    async def beat(member_id: str, epoch: int, **said: Any) -> Any:
        return await client.ask(consumer_heartbeat_request(group, member_id, epoch, **said))

    async def commit(*indexes: int) -> list[int]:
        offsets = dict.fromkeys(indexes, 5)
        request = commit_request(group, {topic: offsets}, version=9, member_id=me, generation_id=1)
        return codes(await client.ask(request))

    for member_id in (me, other):
        await beat(member_id, 0, subscribed_topic_names=(topic,))
    (kept,) = (await beat(me, 1)).assignment.topic_partitions[0].partitions
    assert (await beat(me, 1, owned={topic_id: [kept]})).member_epoch == 2

    # When a commit comes that it sent before, then it counts
    given_up = 1 - kept
    assert await commit(kept) == [NONE]

    # And with what others may have by now, all of it is refused (KIP-1251)
    assert await commit(given_up) == [ErrorCode.stale_member_epoch]
    assert await commit(kept, given_up) == [ErrorCode.stale_member_epoch] * 2
