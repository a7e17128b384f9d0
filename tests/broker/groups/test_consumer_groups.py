"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over the wire (KIP-848)."""

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.consumer_members import ConsumerMember, assigned, settled
from tests.support.group_wire import (
    CONSUMER_GROUP_DESCRIBE,
    consumer_heartbeat_request,
    named,
    new_member_id,
)
from tests.support.wire import TIMEOUT_S, WireClient, milliseconds, request_entities

NONE = ErrorCode.none
INVALID = ErrorCode.invalid_request


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_joins_and_leaves(
    client: WireClient, group: str, topic: str, version: int
) -> None:
    # Given a topic with two partitions
    await client.create_topic(topic, 2)
    topic_id = await client.topic_id(topic)

    # When a member joins; before v1 the coordinator makes its id
    me = "" if version == 0 else new_member_id()
    joining = consumer_heartbeat_request(
        group, me, 0, version=version, subscribed_topic_names=(topic,)
    )
    answer = await client.ask(joining)

    # Then it has all partitions at once, and is told how often to come
    assert answer.error_code is NONE
    assert answer.member_id == (me or answer.member_id) != ""
    assert answer.member_epoch > 0
    assert assigned(answer) == {topic_id: [0, 1]}
    assert answer.heartbeat_interval == milliseconds(5000)

    # And when it leaves, it is unknown
    me, epoch = answer.member_id, answer.member_epoch
    left = await client.ask(consumer_heartbeat_request(group, me, -1, version=version))
    assert (left.error_code, left.member_epoch) == (NONE, -1)
    answer = await client.ask(consumer_heartbeat_request(group, me, epoch, version=version))
    assert answer.error_code is ErrorCode.unknown_member_id


async def test_two_members_share_and_one_takes_over(
    client: WireClient, group: str, topic: str
) -> None:
    # Given two members and four partitions
    await client.create_topic(topic, 4)
    topic_id = await client.topic_id(topic)
    first, second = (ConsumerMember(client, group, topic) for _ in range(2))
    await first.beat()
    assert first.owned == {topic_id: [0, 1, 2, 3]}

    # When they have come to terms, each has two, and none is shared
    await settled(first, second)
    shares = [one.owned[topic_id] for one in (first, second)]
    assert sorted(shares[0] + shares[1]) == [0, 1, 2, 3]
    assert [len(share) for share in shares] == [2, 2]

    # And when one leaves, the other has all
    await second.leave()
    await settled(first)
    assert first.owned == {topic_id: [0, 1, 2, 3]}


async def test_new_partitions_and_topics_are_assigned(
    client: WireClient, group: str, topic: str
) -> None:
    # Given a member that subscribes to a topic and to one that there is not yet
    later = f"{topic}-later"
    await client.create_topic(topic)
    member = ConsumerMember(client, group, topic, later)
    await member.beat()
    assert list(member.owned.values()) == [[0]]

    # When the other topic comes, and the first gets another partition
    await client.create_topic(later)
    module = request_entities(37, 3)
    grown = module.CreatePartitionsTopic(name=topic, count=2, assignments=None)
    await client.ask(named(37, 3, topics=(grown,), timeout=milliseconds(1000), validate_only=False))

    # Then the group notices by itself
    request = named(
        CONSUMER_GROUP_DESCRIBE, 1, group_ids=(group,), include_authorized_operations=False
    )
    async with asyncio.timeout(TIMEOUT_S):
        while (await client.ask(request)).groups[0].group_epoch == member.epoch:
            await asyncio.sleep(0.01)

    # And heartbeats bring both
    wanted = {await client.topic_id(topic): [0, 1], await client.topic_id(later): [0]}
    async with asyncio.timeout(TIMEOUT_S):
        while member.owned != wanted:
            await member.beat()


async def test_a_regular_expression_subscribes(client: WireClient, group: str, topic: str) -> None:
    await client.create_topic(f"{topic}-a")
    joining = consumer_heartbeat_request(
        group, new_member_id(), 0, subscribed_topic_regex=f"{topic}-[a-c]"
    )
    answer = await client.ask(joining)
    assert answer.error_code is NONE
    joining = consumer_heartbeat_request(group, new_member_id(), 0, subscribed_topic_regex="(")
    answer = await client.ask(joining)
    assert answer.error_code is ErrorCode.invalid_regular_expression


@pytest.mark.parametrize("version", [0, 1])
async def test_a_consumer_group_is_described(
    client: WireClient, group: str, topic: str, version: int
) -> None:
    # Given a consumer group of one
    await client.create_topic(topic, 2)
    member = ConsumerMember(client, group, topic)
    await settled(member)

    # When it is described, with an empty name beside it
    request = named(
        CONSUMER_GROUP_DESCRIBE, version, group_ids=(group, ""), include_authorized_operations=True
    )
    described, nameless = (await client.ask(request)).groups

    # Then it is shown with its member and what that holds
    assert (described.error_code, described.group_state) == (NONE, "Stable")
    assert described.group_epoch == described.assignment_epoch == member.epoch
    assert described.assignor_name == "uniform"
    assert described.authorized_operations > 0
    (one,) = described.members
    assert (one.member_id, one.member_epoch) == (member.member_id, member.epoch)
    assert one.subscribed_topic_names == (topic,)
    assert one.client_host == "/127.0.0.1"
    for assignment in (one.assignment, one.target_assignment):
        (of_topic,) = assignment.topic_partitions
        assert (of_topic.topic_name, of_topic.partitions) == (topic, (0, 1))
    if version >= 1:
        assert one.member_type == 1
    assert nameless.error_code is ErrorCode.invalid_group_id


async def test_a_member_of_another_epoch_is_fenced(
    client: WireClient, group: str, topic: str
) -> None:
    await client.create_topic(topic)
    member = ConsumerMember(client, group, topic)
    await settled(member)
    request = consumer_heartbeat_request(group, member.member_id, member.epoch + 7)
    answer = await client.ask(request)
    assert answer.error_code is ErrorCode.fenced_member_epoch


async def test_an_instance_id_in_use_is_not_released(
    client: WireClient, group: str, topic: str
) -> None:
    # Given a static member
    def joining(member_id: str) -> Any:
        return consumer_heartbeat_request(
            group, member_id, 0, instance_id="a", subscribed_topic_names=()
        )

    me = new_member_id()
    epoch = (await client.ask(joining(me))).member_epoch

    # When another joins with its instance id, or speaks for it
    answer = await client.ask(joining(new_member_id()))
    assert answer.error_code is ErrorCode.unreleased_instance_id
    stranger = consumer_heartbeat_request(group, "stranger", epoch, instance_id="a")
    assert (await client.ask(stranger)).error_code is ErrorCode.fenced_instance_id

    # Then only after it said that it will be back somebody else takes its place
    away = consumer_heartbeat_request(group, me, -2, instance_id="a")
    assert (await client.ask(away)).error_code is NONE
    assert (await client.ask(joining(new_member_id()))).error_code is NONE


async def test_a_consumer_group_has_group_consumer_max_size_members(
    client: WireClient, group: str
) -> None:
    for _ in range(3):
        joining = consumer_heartbeat_request(group, new_member_id(), 0, subscribed_topic_names=())
        assert (await client.ask(joining)).error_code is NONE
    joining = consumer_heartbeat_request(group, new_member_id(), 0, subscribed_topic_names=())
    assert (await client.ask(joining)).error_code is ErrorCode.group_max_size_reached
