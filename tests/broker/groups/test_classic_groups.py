"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup over the wire, oldest and newest versions."""

import asyncio
import os
import signal
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.groups.conftest import MakeMember
from tests.support.broker import BrokerProcess
from tests.support.group_members import stable, until_rebalance
from tests.support.group_wire import (
    DESCRIBE_GROUPS,
    heartbeat_request,
    join_request,
    leave_request,
    named,
    subscription,
    sync_request,
)
from tests.support.wire import WireClient, encode_frame

NONE = ErrorCode.none
SHORT_MS = 1_500
"""A session that a test waits for the end of, and that is not over while the group is made."""
STANDSTILL_S = 1.7
"""Longer than that."""


@pytest.mark.parametrize(("join", "other"), [(0, 0), (1, 1), (5, 3), (9, 4)])
async def test_a_member_joins_syncs_and_leaves(
    client: WireClient, group: str, join: int, other: int
) -> None:
    # Given a member that joins an empty group
    answer = await client.ask(join_request(group, version=join))
    if join >= 4:  # KIP-394
        assert answer.error_code is ErrorCode.member_id_required
        answer = await client.ask(join_request(group, answer.member_id, version=join))

    # Then it is the leader of the first generation, and sees what it said about itself
    assert (answer.error_code, answer.generation_id) == (NONE, 1)
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("test-")  # the client's id
    assert answer.protocol_name == "range"
    assert [one.metadata for one in answer.members] == [subscription()]

    # When it assigns and syncs, it gets its assignment and stays by heartbeats
    me = answer.member_id
    sync_version, leave_version = min(other + 1, 5), min(other + 1, 5)
    synced = await client.ask(sync_request(group, me, 1, {me: b"all"}, version=sync_version))
    assert (synced.error_code, synced.assignment) == (NONE, b"all")
    beat = await client.ask(heartbeat_request(group, me, 1, version=other))
    assert beat.error_code is NONE

    # And when it leaves, it is unknown
    left = await client.ask(leave_request(group, (me, None), version=leave_version))
    assert left.error_code is NONE
    beat = await client.ask(heartbeat_request(group, me, 1, version=other))
    assert beat.error_code is ErrorCode.unknown_member_id


async def test_a_second_member_makes_the_first_join_again(member: MakeMember) -> None:
    # Given a stable group of one
    first, second = await member(), await member()
    await stable(first)

    # When another joins
    joining = asyncio.create_task(second.join())
    await until_rebalance(first)
    again = await first.join()
    joined = await joining

    # Then both are in the second generation; the leader alone is told of all members
    assert again.generation_id == joined.generation_id == 2
    assert again.leader == joined.leader == first.member_id
    assert {one.member_id for one in again.members} == {first.member_id, second.member_id}
    assert joined.members == ()

    # And each gets its own assignment
    plan = {first.member_id: b"one", second.member_id: b"two"}
    await asyncio.gather(second.sync(), first.sync(plan))
    assert (first.assignment, second.assignment) == (b"one", b"two")
    assert await second.heartbeat() == NONE


async def test_a_parked_join_does_not_hold_up_the_requests_behind_it(
    client: WireClient, member: MakeMember, group: str
) -> None:
    # Given a stable group, and a connection on which a new member's join is parked
    first = await member()
    await stable(first)
    answer = await client.ask(join_request(group))
    parked = join_request(group, answer.member_id)
    await client.send(encode_frame(parked, 11))
    await until_rebalance(first)

    # When the same connection sends the other member's heartbeat behind it
    beat = heartbeat_request(group, first.member_id, 1)
    await client.send(encode_frame(beat, 12))
    again = asyncio.create_task(first.join())

    # Then both are answered, in order
    correlation_id, joined = await client.receive(parked)
    assert (correlation_id, joined.generation_id) == (11, 2)
    correlation_id, beaten = await client.receive(beat)
    assert (correlation_id, beaten.error_code) == (12, ErrorCode.rebalance_in_progress)
    assert (await again).generation_id == 2


async def test_a_member_that_is_silent_is_taken_out(member: MakeMember) -> None:
    # Given two members, one of which has a short session timeout
    first, second = await member(), await member(session_timeout_ms=SHORT_MS)
    await stable(first, second)
    generation_id = first.generation_id

    # When that one says nothing
    await until_rebalance(first)

    # Then the other is alone in the next generation
    again = await first.join()
    assert again.generation_id == generation_id + 1
    assert len(again.members) == 1
    assert await second.heartbeat() == ErrorCode.unknown_member_id


async def test_a_broker_that_stood_still_reads_heartbeats_before_it_misses_them(
    group_broker: BrokerProcess, client: WireClient, member: MakeMember, group: str
) -> None:
    # Given members with a short session timeout
    first = await member(session_timeout_ms=SHORT_MS)
    second = await member(session_timeout_ms=SHORT_MS)
    await stable(first, second)

    # When the broker stands still for longer than that, and one of them is heard of meanwhile
    os.kill(group_broker.process.pid, signal.SIGSTOP)
    beat = heartbeat_request(group, first.member_id, first.generation_id)
    await client.send(encode_frame(beat, 1))
    await asyncio.sleep(STANDSTILL_S)
    os.kill(group_broker.process.pid, signal.SIGCONT)

    # Then that one is still a member, and the other is not, which the log tells
    _, answer = await client.receive(beat)
    assert answer.error_code is not ErrorCode.unknown_member_id
    await until_rebalance(first)
    assert await second.heartbeat() == ErrorCode.unknown_member_id
    (line,) = [
        line
        for line in group_broker.log.read_text().splitlines()
        if "removed" in line and group in line
    ]
    assert second.member_id in line


async def test_a_static_member_comes_back_without_a_rebalance(member: MakeMember) -> None:
    # Given a stable group of two static members
    first, second = await member(instance_id="a"), await member(instance_id="b")
    leader = await stable(first, second)
    follower = second if leader is first else first
    generation_id = leader.generation_id

    # When the one who does not lead starts anew
    again = await member(instance_id=follower.instance_id)
    joined = await again.join()
    await again.sync()

    # Then it has a new id, the old assignment, and nobody had to join again
    assert (joined.error_code, joined.generation_id) == (NONE, generation_id)
    assert again.assignment == follower.member_id.encode()
    assert await leader.heartbeat() == NONE

    # And the one that it replaced is fenced
    assert await follower.heartbeat() == ErrorCode.fenced_instance_id


async def test_an_admin_takes_out_a_static_member_by_its_instance_id(
    client: WireClient, member: MakeMember, group: str
) -> None:
    # Given a static member
    await stable(await member(instance_id="a"))

    # When it is taken out by its instance id, with one who is not there
    left = await client.ask(leave_request(group, ("", "a"), ("", "b")))

    # Then each answers for itself
    assert left.error_code is NONE
    assert [one.error_code for one in left.members] == [NONE, ErrorCode.unknown_member_id]


async def test_a_group_has_group_max_size_members(member: MakeMember) -> None:
    members = [await member() for _ in range(3)]
    await stable(*members)
    one_too_many = await member()
    answer = await one_too_many.join()
    assert answer.error_code is ErrorCode.group_max_size_reached


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"session_timeout_ms": 199}, ErrorCode.invalid_session_timeout),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.invalid_session_timeout),
        ({"member_id": "somebody"}, ErrorCode.unknown_member_id),
        ({"protocols": {}, "version": 3}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": "", "version": 3}, ErrorCode.inconsistent_group_protocol),
    ],
)
@pytest.mark.parametrize("version", [0, 9])
async def test_who_joins_wrongly_is_told_why(
    client: WireClient, group: str, version: int, wrong: dict[str, Any], code: ErrorCode
) -> None:
    values: dict[str, Any] = {"version": version, **wrong}
    answer = await client.ask(join_request(group, **values))
    assert answer.error_code is code
    # and nothing came of it
    request = named(DESCRIBE_GROUPS, 6, groups=(group,), include_authorized_operations=False)
    (described,) = (await client.ask(request)).groups
    assert described.error_code is ErrorCode.group_id_not_found


async def test_one_with_other_protocols_cannot_join(client: WireClient, member: MakeMember) -> None:
    first = await member()
    await stable(first)
    wrongs: list[dict[str, Any]] = [{"protocol_type": "connect"}, {"protocols": {"sticky": b""}}]
    for wrong in wrongs:
        answer = await client.ask(join_request(first.group, version=3, **wrong))
        assert answer.error_code is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("group_id", ["", "x" * 600])
async def test_a_group_needs_a_name_of_a_sensible_length(client: WireClient, group_id: str) -> None:
    for request in (
        join_request(group_id),
        sync_request(group_id, "m", 1),
        heartbeat_request(group_id, "m", 1),
        leave_request(group_id, ("m", None)),
    ):
        assert (await client.ask(request)).error_code is ErrorCode.invalid_group_id


async def test_of_a_group_that_is_not_there_nobody_is_a_member(
    client: WireClient, group: str
) -> None:
    unknown = ErrorCode.unknown_member_id
    for version in (0, 5):
        assert (
            await client.ask(sync_request(group, "m", 1, version=version))
        ).error_code is unknown
    for version in (0, 4):
        beat = await client.ask(heartbeat_request(group, "m", 1, version=version))
        assert beat.error_code is unknown
    assert (await client.ask(leave_request(group, ("m", None), version=0))).error_code is unknown
    (left,) = (await client.ask(leave_request(group, ("m", None)))).members
    assert left.error_code is unknown


async def test_who_is_of_another_generation_is_told_so(
    client: WireClient, member: MakeMember, group: str
) -> None:
    first = await member()
    await stable(first)
    me = first.member_id
    for request in (sync_request(group, me, 7), heartbeat_request(group, me, 7)):
        assert (await client.ask(request)).error_code is ErrorCode.illegal_generation


async def test_a_sync_names_the_protocol_of_the_group(
    client: WireClient, member: MakeMember, group: str
) -> None:
    # KIP-559: v5 has to name it, and it has to be the right one
    first = await member()
    await stable(first)
    wrongs: list[dict[str, Any]] = [{"protocol_type": None}, {"protocol_name": "sticky"}]
    for protocol in wrongs:
        answer = await client.ask(sync_request(group, first.member_id, 1, **protocol))
        assert answer.error_code is ErrorCode.inconsistent_group_protocol
