"""DescribeGroups, ListGroups and DeleteGroups over the wire, oldest and newest versions."""

from typing import Any

import asyncpg
import pytest
from kio.schema.errors import ErrorCode

from sql import query
from storage.postgres.postgres_binaries import unix_socket_dsn
from tests.broker.groups.conftest import MakeMember
from tests.support.broker import BrokerProcess
from tests.support.group_members import stable
from tests.support.group_wire import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    commit_request,
    consumer_heartbeat_request,
    fetch_request,
    named,
    new_member_id,
    subscription,
)
from tests.support.row_locks import locked
from tests.support.wire import WireClient

NONE = ErrorCode.none
READ_DELETE_DESCRIBE = 1 << 3 | 1 << 6 | 1 << 8
CONFIGS = 1 << 10 | 1 << 11
NOT_ASKED = -(2**31)


def describe_request(*groups: str, version: int = 6, operations: bool = False) -> Any:
    return named(DESCRIBE_GROUPS, version, groups=groups, include_authorized_operations=operations)


@pytest.mark.parametrize("version", [0, 3, 5, 6])
async def test_a_stable_group_is_described(
    client: WireClient, member: MakeMember, group: str, version: int
) -> None:
    # Given a stable group of a static member
    first = await member(instance_id="a")
    await stable(first)

    # When it is described, operations included
    request = describe_request(group, version=version, operations=True)
    (described,) = (await client.ask(request)).groups

    # Then its member is shown with all that it said and got
    assert described.error_code is NONE
    assert (described.group_state, described.protocol_type) == ("Stable", "consumer")
    assert described.protocol_data == "range"
    (one,) = described.members
    assert (one.member_id, one.client_id) == (first.member_id, "test")
    assert one.client_host == "/127.0.0.1"
    assert (one.member_metadata, one.member_assignment) == (
        subscription(),
        first.member_id.encode(),
    )
    if version >= 3:
        assert described.authorized_operations == READ_DELETE_DESCRIBE | CONFIGS
    if version >= 4:
        assert one.group_instance_id == "a"


async def test_a_group_that_is_not_there_is_dead(client: WireClient, group: str) -> None:
    for version in (0, 5):
        (dead,) = (await client.ask(describe_request(group, version=version))).groups
        assert (dead.error_code, dead.group_state) == (NONE, "Dead")
    (dead,) = (await client.ask(describe_request(group))).groups
    assert (dead.error_code, dead.group_state) == (ErrorCode.group_id_not_found, "Dead")
    assert dead.error_message == f"Group {group} not found."
    assert dead.authorized_operations == NOT_ASKED


async def test_a_group_whose_row_is_held_keeps_no_other_from_being_described(
    group_broker: BrokerProcess, client: WireClient, group: str
) -> None:
    # Given groups that the broker has not in memory, and somebody who holds the row of one
    held, *others = (f"{group}-{number}" for number in range(4))
    session = await asyncpg.connect(unix_socket_dsn(group_broker.log.parent / "postgres"))
    await session.execute(query("group_take"), [held, *others], True)
    await session.close()

    # When they are described together
    async with locked(group_broker, "groups WHERE group_id = $1", held):
        answer = await client.ask(describe_request(held, *others))

    # Then the others are
    codes = {one.group_id: one.error_code for one in answer.groups}
    assert codes == {held: ErrorCode.coordinator_not_available, **dict.fromkeys(others, NONE)}


async def test_each_kind_of_group_has_its_own_description(
    client: WireClient, group: str, topic: str
) -> None:
    # Given a classic group without members, and a consumer group
    await client.create_topic(topic)
    await client.ask(commit_request(group, {topic: {0: 1}}))
    modern = f"{group}-modern"
    joining = consumer_heartbeat_request(modern, new_member_id(), 0, subscribed_topic_names=())
    await client.ask(joining)

    # When each is described as the other kind
    (classic,) = (await client.ask(describe_request(modern))).groups
    request = named(
        CONSUMER_GROUP_DESCRIBE, 0, group_ids=(group,), include_authorized_operations=False
    )
    (consumer,) = (await client.ask(request)).groups

    # Then it is not found, and the message says why
    assert classic.error_code is consumer.error_code is ErrorCode.group_id_not_found
    assert classic.error_message == f"Group {modern} is not a classic group."
    assert consumer.error_message == f"Group {group} is not a consumer group."


async def test_a_group_that_is_named_twice_is_described_once(
    client: WireClient, member: MakeMember, group: str
) -> None:
    # Given a classic group and a consumer group
    await stable(await member())
    modern = f"{group}-modern"
    joining = consumer_heartbeat_request(modern, new_member_id(), 0, subscribed_topic_names=())
    await client.ask(joining)
    twice = (group, modern, group, modern)

    # When each is named twice, then each is described once, in the order of the request
    for request in (
        describe_request(*twice),
        named(CONSUMER_GROUP_DESCRIBE, 0, group_ids=twice, include_authorized_operations=False),
    ):
        described = (await client.ask(request)).groups
        assert [one.group_id for one in described] == [group, modern]


async def listed(client: WireClient, version: int, prefix: str, **filters: Any) -> dict[str, Any]:
    answer = await client.ask(named(LIST_GROUPS, version, **filters))
    assert answer.error_code is NONE
    return {one.group_id: one for one in answer.groups if one.group_id.startswith(prefix)}


async def test_groups_are_listed_by_state_and_type(
    client: WireClient, member: MakeMember, group: str, topic: str
) -> None:
    # Given a stable classic group, one with offsets only, and a consumer group
    await stable(await member())
    await client.create_topic(topic)
    simple, modern = f"{group}-simple", f"{group}-modern"
    await client.ask(commit_request(simple, {topic: {0: 1}}))
    joining = consumer_heartbeat_request(modern, new_member_id(), 0, subscribed_topic_names=())
    await client.ask(joining)

    # When groups are listed, in every version
    for version in (0, 2, 3, 4, 5):
        found = await listed(client, version, group)
        assert {one.group_id: one.protocol_type for one in found.values()} == {
            group: "consumer",
            simple: "",
            modern: "consumer",
        }

    # Then states and types come with it, in Kafka's words
    found = await listed(client, 5, group, states_filter=(), types_filter=())
    assert {(one.group_id, one.group_state, one.group_type) for one in found.values()} == {
        (group, "Stable", "classic"),
        (simple, "Empty", "classic"),
        (modern, "Stable", "consumer"),
    }

    # And filters choose, whatever their case
    for filters, chosen in (
        ({"states_filter": ("sTABLE",), "types_filter": ()}, {group, modern}),
        ({"states_filter": ("empty",), "types_filter": ("CLASSIC",)}, {simple}),
        ({"states_filter": (), "types_filter": ("Consumer",)}, {modern}),
        ({"states_filter": (), "types_filter": ("share",)}, set()),
    ):
        assert set(await listed(client, 5, group, **filters)) == chosen


@pytest.mark.parametrize("version", [0, 2])
async def test_groups_without_members_are_deleted(
    client: WireClient, member: MakeMember, group: str, topic: str, version: int
) -> None:
    # Given a group with a member, and one with offsets only
    await client.create_topic(topic)
    first = await member()
    await stable(first)
    simple = f"{group}-simple"
    await client.ask(commit_request(simple, {topic: {0: 1}}))

    # When both are to be deleted, and one that there is not
    names = (group, simple, f"{group}-no", simple)
    answer = await client.ask(named(DELETE_GROUPS, version, groups_names=names))

    # Then each answers for itself, and once
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        (group, ErrorCode.non_empty_group),
        (simple, NONE),
        (f"{group}-no", ErrorCode.group_id_not_found),
    ]
    assert set(await listed(client, 3, group)) == {group}
    (gone,) = (await client.ask(fetch_request(simple, None))).groups
    assert gone.topics == ()

    # And the first can go once its member has left
    await first.leave()
    answer = await client.ask(named(DELETE_GROUPS, version, groups_names=(group,)))
    assert answer.results[0].error_code is NONE
    assert await first.heartbeat() == ErrorCode.unknown_member_id


async def test_a_deleted_group_begins_anew(
    client: WireClient, member: MakeMember, group: str
) -> None:
    first = await member()
    await stable(first)
    await first.leave()
    await client.ask(named(DELETE_GROUPS, 2, groups_names=(group,)))
    again = await member()
    assert (await again.join()).generation_id == 1
