"""JoinGroup of a classic member in a consumer group: one step to its target, answered at once."""

from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from coordinator.answers import JoinAnswer
from coordinator.catalog import Catalog
from coordinator.classic_subscription import CONSUMER_PROTOCOL, UnreadableSubscription
from coordinator.consumer_core import ConsumerCore
from coordinator.consumer_identity import known_member
from coordinator.consumer_member import ClassicMemberMetadata, Member
from coordinator.consumer_protocol import ConsumerSubscription, read_subscription, to_partitions
from coordinator.deadlines import Deadline
from coordinator.events import Join
from coordinator.refused import Refused
from coordinator.subscriptions import Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joining:
    """A JoinGroup that may be answered: who it is, under which id it is known, what it says."""

    member: Member
    known_as: str | None
    says: ConsumerSubscription
    catalog: Catalog


def join(core: ConsumerCore, event: Join, now_ms: int) -> JoinAnswer:
    """Take a new member in, or lead a known one a step further."""
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
        known = known_member(core, event.member_id, event.instance_id)
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


def _new_member_id(core: ConsumerCore, event: Join) -> str:
    return core.config.new_member_id(event.instance_id or event.client_id)
