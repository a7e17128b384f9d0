"""Members that speak the classic protocol in a consumer group (KIP-848, online migration).

The coordinator assigns for them as for everybody: a JoinGroup is one step to the target, the
generation is the member epoch, and SyncGroup hands out the assignment. Nobody waits for others, so
nothing is ever parked. A heartbeat that says REBALANCE_IN_PROGRESS makes them take the next step.

    consumer_classic_join.py   JoinGroup; the other requests are here
"""

from kio.schema.errors import ErrorCode

from coordinator.answers import HeartbeatAnswer, LeaveAnswer, LeftMember, SyncAnswer
from coordinator.catalog import Catalog
from coordinator.classic_subscription import CONSUMER_PROTOCOL
from coordinator.consumer_classic_join import join
from coordinator.consumer_core import ConsumerCore
from coordinator.consumer_identity import known_member
from coordinator.consumer_member import ClassicMemberMetadata, Member, MemberState
from coordinator.consumer_protocol import read_subscription, write_assignment
from coordinator.deadlines import Deadline
from coordinator.effects import Effect
from coordinator.events import Heartbeat, Join, Leave, LeavingMember, Sync
from coordinator.refused import Refused


def handle_classic(
    core: ConsumerCore, event: Join | Sync | Heartbeat | Leave, now_ms: int
) -> list[Effect]:
    """Serve one request of the classic protocol."""
    match event:
        case Join():
            return core.effects(event.token, join(core, event, now_ms))
        case Sync():
            return core.effects(event.token, _sync(core, event, now_ms))
        case Heartbeat():
            return core.effects(event.token, _heartbeat(core, event, now_ms))
        case Leave():
            return core.effects(event.token, _leave(core, event, now_ms))


def _sync(core: ConsumerCore, event: Sync, now_ms: int) -> SyncAnswer:
    try:
        member, classic = _classic(core, event)
        _check_protocol(event, classic)
        catalog = _check_up_to_date(core, member, now_ms)
    except Refused as refused:
        return SyncAnswer(error_code=refused.error_code)
    core.deadlines.cancel(member.member_id, Deadline.SYNC)
    core.extend_session(member, now_ms)
    version = read_subscription(classic.protocols[0].metadata).version
    return SyncAnswer(
        protocol_type=event.protocol_type,
        protocol_name=event.protocol_name,
        assignment=write_assignment(member.assigned, catalog, version=version),
    )


def _check_protocol(event: Sync, classic: ClassicMemberMetadata) -> None:
    if event.protocol_type not in {None, CONSUMER_PROTOCOL}:
        raise Refused(ErrorCode.inconsistent_group_protocol, "It joined as a consumer.")
    if event.protocol_name not in {None, classic.protocols[0].name}:
        raise Refused(ErrorCode.inconsistent_group_protocol, "It joined with another protocol.")


def _check_up_to_date(core: ConsumerCore, member: Member, now_ms: int) -> Catalog:
    """One who has yet to revoke is told what to keep; all others join the newest assignment."""
    catalog = core.subscriptions.catalog
    is_behind = core.assignment_epoch > member.member_epoch
    if catalog is None or (is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS):
        _expect_join(core, member, now_ms)
        raise Refused(ErrorCode.rebalance_in_progress, "It has to join again.")
    return catalog


def _heartbeat(core: ConsumerCore, event: Heartbeat, now_ms: int) -> HeartbeatAnswer:
    try:
        member, _ = _classic(core, event)
    except Refused as refused:
        return HeartbeatAnswer(error_code=refused.error_code)
    core.extend_session(member, now_ms)
    if not _shall_join(core, member):
        return HeartbeatAnswer()
    _expect_join(core, member, now_ms)
    return HeartbeatAnswer(error_code=ErrorCode.rebalance_in_progress)


def _shall_join(core: ConsumerCore, member: Member) -> bool:
    """Whether another JoinGroup would bring the member a step further."""
    is_behind = member.member_epoch < core.assignment_epoch
    if is_behind or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is MemberState.STABLE:
        return False
    waits_for = member.target - member.assigned
    return all(core.members.owner_of(partition) is None for partition in waits_for)


def _expect_join(core: ConsumerCore, member: Member, now_ms: int) -> None:
    if not core.deadlines.is_set(member.member_id, Deadline.JOIN):
        due_ms = now_ms + member.rebalance_timeout_ms
        core.deadlines.set(member.member_id, Deadline.JOIN, due_ms)


def _leave(core: ConsumerCore, event: Leave, now_ms: int) -> LeaveAnswer:
    leaving: dict[str, None] = {}
    left: list[LeftMember] = []
    for who in event.members:
        try:
            leaving[_leaver(core, who).member_id] = None
            error_code = ErrorCode.none
        except Refused as refused:
            error_code = refused.error_code
        left.append(
            LeftMember(member_id=who.member_id, instance_id=who.instance_id, error_code=error_code)
        )
    if leaving:
        core.remove(leaving)
        core.assign(now_ms)
    return LeaveAnswer(members=left)


def _leaver(core: ConsumerCore, who: LeavingMember) -> Member:
    """An admin client may remove a static member without knowing its member id (KIP-345)."""
    if who.instance_id is not None and not who.member_id:
        known = core.members.by_instance(who.instance_id)
        if known is not None:
            return known
    return known_member(core, who.member_id, who.instance_id)


def _classic(core: ConsumerCore, event: Sync | Heartbeat) -> tuple[Member, ClassicMemberMetadata]:
    member = known_member(core, event.member_id, event.instance_id)
    if member.classic is None:
        raise Refused(ErrorCode.unknown_member_id, "It does not use the classic protocol.")
    if member.member_epoch != event.generation_id:
        raise Refused(ErrorCode.illegal_generation, "It is of another generation.")
    return member, member.classic
