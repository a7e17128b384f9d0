"""A classic group made of members from elsewhere, and one that is about to go (KIP-848)."""

from itertools import count

from kio.schema.errors import ErrorCode

from coordinator.answers import JoinAnswer, SyncAnswer
from coordinator.classic import ClassicGroup
from coordinator.classic_members import ClassicMember
from coordinator.config import ClassicConfig, ConsumerConfig, GroupConfig
from coordinator.effects import ArmTimer, Reply
from coordinator.events import Heartbeat, Join, Protocol, Sync
from coordinator.snapshots import GroupState
from tests.coordinator.classic_script import subscription


def a_config() -> GroupConfig:
    numbers = count(1)
    return GroupConfig(
        classic=ClassicConfig(initial_rebalance_delay_ms=0),
        consumer=ConsumerConfig(),
        new_uuid=lambda: str(next(numbers)),
    )


def a_member(member_id: str, assignment: bytes) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        instance_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocols=(Protocol(name="range", metadata=subscription("t1")),),
        assignment=assignment,
    )


def a_group(*members: ClassicMember) -> ClassicGroup:
    return ClassicGroup.of_members(
        "orders",
        a_config(),
        generation_id=7,
        protocol_type="consumer",
        members=members,
        now_ms=1_000,
    )


def a_join(token: str, member_id: str) -> Join:
    return Join(
        token=token,
        member_id=member_id,
        instance_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(Protocol(name="range", metadata=subscription("t1")),),
        needs_member_id=False,
        skips_assignment=True,
    )


def test_members_from_elsewhere_keep_what_they_have() -> None:
    # Given two members with assignments
    group = a_group(a_member("m1", b"p0"), a_member("m2", b"p1"))

    # Then the group is stable under the generation given, and each has a full session
    assert (group.state, group.generation_id) == (GroupState.STABLE, 7)
    assert group.start() == [ArmTimer(deadline_ms=11_000)]
    assert [member.assignment for member in group.members.values()] == [b"p0", b"p1"]
    assert group.subscribed_topics() == frozenset({"t1"})


def test_members_from_elsewhere_are_asked_to_join_again() -> None:
    # Given such a group
    group = a_group(a_member("m1", b"p0"))

    # When it rebalances
    assert group.rebalance(now_ms=2_000) == [ArmTimer(deadline_ms=11_000)]

    # Then a heartbeat says so
    beat = Heartbeat(token="beat", generation_id=7, member_id="m1", instance_id=None)
    (reply,) = group.handle(beat, now_ms=2_001)
    assert isinstance(reply, Reply)
    assert reply.answer.error_code is ErrorCode.rebalance_in_progress  # type: ignore[union-attr]

    # And the first member leads
    effects = group.handle(a_join("join", "m1"), now_ms=2_002)
    (joined,) = [effect.answer for effect in effects if isinstance(effect, Reply)]
    assert isinstance(joined, JoinAnswer)
    assert (joined.generation_id, joined.leader) == (8, "m1")


def test_a_group_of_nobody_is_empty() -> None:
    group = a_group()
    assert (group.state, group.generation_id, group.start()) == (GroupState.EMPTY, 7, [])


def test_parked_requests_are_answered_before_a_group_becomes_another_machine() -> None:
    # Given a parked JoinGroup, and in another group a parked SyncGroup
    joining = a_group(a_member("m1", b""), a_member("m2", b""))
    joining.handle(a_join("join", "m1"), now_ms=2_000)
    syncing = a_group(a_member("m1", b""), a_member("m2", b""))
    for token, member_id in (("join-1", "m1"), ("join-2", "m2")):
        syncing.handle(a_join(token, member_id), now_ms=2_000)
    request = Sync(
        token="sync",
        generation_id=8,
        member_id="m2",
        instance_id=None,
        protocol_type=None,
        protocol_name=None,
        assignments={},
    )
    syncing.handle(request, now_ms=2_001)

    # When they are about to go
    code = ErrorCode.rebalance_in_progress
    joins, syncs = joining.answer_parked(code), syncing.answer_parked(code)

    # Then both clients hear of it, once
    assert joins == [Reply(token="join", answer=JoinAnswer(error_code=code, member_id="m1"))]
    assert syncs == [Reply(token="sync", answer=SyncAnswer(error_code=code))]
    assert joining.answer_parked(code) == syncing.answer_parked(code) == []
