"""Members that speak the classic protocol in a consumer group (KIP-848, online migration).

The coordinator assigns for them as for everybody: a JoinGroup is one step to the target, the
generation is the member epoch, and SyncGroup hands out the assignment. Nobody waits for others, so
nothing is ever parked. A heartbeat that says REBALANCE_IN_PROGRESS makes them take the next step.
"""

from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from coordinator.answers import (
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    LeftMember,
    SyncAnswer,
)
from coordinator.catalog import Catalog
from coordinator.classic_subscription import CONSUMER_PROTOCOL, UnreadableSubscription
from coordinator.consumer_core import ConsumerCore
from coordinator.consumer_member import ClassicMemberMetadata, Member, MemberState
from coordinator.consumer_protocol import (
    ConsumerSubscription,
    read_subscription,
    to_partitions,
    write_assignment,
)
from coordinator.deadlines import Deadline
from coordinator.effects import Effect
from coordinator.events import Heartbeat, Join, Leave, LeavingMember, Sync
from coordinator.refused import Refused
from coordinator.subscriptions import Subscription


def handle_classic(
    core: ConsumerCore, event: Join | Sync | Heartbeat | Leave, now_ms: int
) -> list[Effect]:
    """Serve one request of the classic protocol."""
    match event:
        case Join():
            return core.effects(event.token, _join(core, event, now_ms))
        case Sync():
            return core.effects(event.token, _sync(core, event, now_ms))
        case Heartbeat():
            return core.effects(event.token, _heartbeat(core, event, now_ms))
        case Leave():
            return core.effects(event.token, _leave(core, event, now_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joining:
    """A JoinGroup that may be answered: who it is, under which id it is known, what it says."""

    member: Member
    known_as: str | None
    says: ConsumerSubscription
    catalog: Catalog


def _join(core: ConsumerCore, event: Join, now_ms: int) -> JoinAnswer:
    try:
        if event.needs_member_id and not event.member_id and event.instance_id is None:
            _check_join(core, event)
            return JoinAnswer(
                error_code=ErrorCode.member_id_required, member_id=_new_member_id(core, event)
            )
        joining = _joining(core, event)
    except Refused as refused:
        return JoinAnswer(error_code=refused.error_code, member_id=event.member_id)
    member = _admitted(core, event, joining, now_ms)
    return JoinAnswer(
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=event.protocols[0].name,
        member_id=member.member_id,
    )


def _joining(core: ConsumerCore, event: Join) -> _Joining:
    says = _check_join(core, event)
    catalog = core.subscriptions.catalog
    if catalog is None:  # only just restored: without it nobody knows what the member owns
        raise Refused(ErrorCode.rebalance_in_progress, "The topics are not known yet.")
    member, known_as = _find(core, event)
    if known_as is None and event.member_id and says.owned:
        # it was removed, and others may have what it still holds: it has to let go of all first;
        # one whose member id is fresh (KIP-394) owns nothing
        raise Refused(ErrorCode.unknown_member_id, "It is not a member any more.")
    if known_as is None:
        core.check_size()
    return _Joining(member=member, known_as=known_as, says=says, catalog=catalog)


def _check_join(core: ConsumerCore, event: Join) -> ConsumerSubscription:
    if event.protocol_type != CONSUMER_PROTOCOL or not event.protocols:
        raise Refused(ErrorCode.inconsistent_group_protocol, "It is no consumer.")
    offered = {protocol.name for protocol in event.protocols}
    for member in core.members:
        if member.classic is not None and member.member_id != event.member_id:
            offered &= {protocol.name for protocol in member.classic.protocols}
    if not offered:
        raise Refused(ErrorCode.inconsistent_group_protocol, "Its protocols are not supported.")
    try:
        says = read_subscription(event.protocols[0].metadata)
    except UnreadableSubscription as unreadable:
        raise Refused(ErrorCode.inconsistent_group_protocol, str(unreadable)) from unreadable
    core.check_room(_speaking(Member(member_id=event.member_id), event, says), event.member_id)
    return says


def _speaking(member: Member, event: Join, says: ConsumerSubscription) -> Member:
    """Return the member with what it supports and subscribes to."""
    classic = ClassicMemberMetadata(
        session_timeout_ms=event.session_timeout_ms, protocols=tuple(event.protocols)
    )
    return replace(member, subscription=Subscription(says.topics), classic=classic)


def _find(core: ConsumerCore, event: Join) -> tuple[Member, str | None]:
    """Return who joins, and the id under which it is known; None for one who is new."""
    member_id = event.member_id or _new_member_id(core, event)
    if event.instance_id is None:
        known = core.members.get(member_id)
        return (Member(member_id=member_id), None) if known is None else (known, member_id)
    known = core.members.by_instance(event.instance_id)
    if event.member_id:
        known = _checked(core, event.member_id, event.instance_id)
        return known, known.member_id
    if known is None:
        return Member(member_id=member_id), None
    return known.replaced_by(member_id), known.member_id


def _admitted(core: ConsumerCore, event: Join, joining: _Joining, now_ms: int) -> Member:
    before, says = joining.member, joining.says
    member = replace(
        _speaking(before, event, says),
        instance_id=event.instance_id or before.instance_id,
        rack_id=says.rack_id or before.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        rebalance_timeout_ms=max(event.rebalance_timeout_ms, 0),
    )
    if joining.known_as is not None and joining.known_as != member.member_id:
        core.swap(joining.known_as, member)
    else:
        core.put(member)
    core.deadlines.forget(member.member_id)
    after = core.step_to_target(
        member,
        to_partitions(says.owned, joining.catalog),
        subscription_changed=member.subscription != before.subscription,
        now_ms=now_ms,
    )
    core.deadlines.set(after.member_id, Deadline.SYNC, now_ms + after.rebalance_timeout_ms)
    return after


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
    return _checked(core, who.member_id, who.instance_id)


def _classic(core: ConsumerCore, event: Sync | Heartbeat) -> tuple[Member, ClassicMemberMetadata]:
    member = _checked(core, event.member_id, event.instance_id)
    if member.classic is None:
        raise Refused(ErrorCode.unknown_member_id, "It does not use the classic protocol.")
    if member.member_epoch != event.generation_id:
        raise Refused(ErrorCode.illegal_generation, "It is of another generation.")
    return member, member.classic


def _checked(core: ConsumerCore, member_id: str, instance_id: str | None) -> Member:
    if instance_id is None:
        member = core.members.get(member_id)
    else:
        member = core.members.by_instance(instance_id)
    if member is None:
        raise Refused(ErrorCode.unknown_member_id, "It is not a member.")
    if member.member_id != member_id:
        raise Refused(ErrorCode.fenced_instance_id, "Another process has its instance id.")
    return member


def _new_member_id(core: ConsumerCore, event: Join) -> str:
    return core.config.new_member_id(event.instance_id or event.client_id)
