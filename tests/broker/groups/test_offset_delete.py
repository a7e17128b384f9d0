"""OffsetDelete over the wire (KIP-496)."""

from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker.groups.conftest import MakeMember
from tests.support.group_members import stable
from tests.support.group_wire import (
    OFFSET_DELETE,
    codes,
    commit_request,
    committed,
    fetch_request,
    subscription,
)
from tests.support.wire import WireClient, request_entities

NONE = ErrorCode.none
UNKNOWN_TOPIC = ErrorCode.unknown_topic_or_partition
NOTHING = (-1, "")


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


def delete_request(group: str, *topics: str) -> Any:
    module = request_entities(OFFSET_DELETE, 0)
    partition = module.OffsetDeleteRequestPartition(partition_index=0)
    asked = tuple(
        module.OffsetDeleteRequestTopic(name=name, partitions=(partition,)) for name in topics
    )
    return module.OffsetDeleteRequest(group_id=group, topics=asked)
