"""Who a request to a consumer group is from: a known member, one in its place, or a new one."""

from kio.schema.errors import ErrorCode

from coordinator.consumer_checks import check_epoch
from coordinator.consumer_core import ConsumerCore
from coordinator.consumer_member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, Member
from coordinator.events import ConsumerHeartbeat
from coordinator.refused import Refused


def find_member(core: ConsumerCore, event: ConsumerHeartbeat) -> tuple[Member, str | None]:
    """Return who sends a heartbeat, and the id under which it is known; None for one who is new.

    Raises:
        Refused: with the code for one who is not who it says to be, or for whom there is no place.
    """
    if event.instance_id is not None:
        return _find_static(core, event, event.instance_id)
    known = core.members.get(event.member_id)
    if known is not None:
        check_epoch(known, event)
        return known, known.member_id
    return _newcomer(core, event), None


def static_member(known: Member | None, event: ConsumerHeartbeat) -> Member:
    """Return the member that an instance id belongs to.

    Args:
        known: who has the id, if anybody.
        event: of the one who says to be it.

    Raises:
        Refused: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    if known is None:
        raise Refused(ErrorCode.unknown_member_id, f"Instance id {event.instance_id} is unknown.")
    if known.member_id != event.member_id:
        raise Refused(
            ErrorCode.fenced_instance_id,
            f"Static member {event.member_id} with instance id {event.instance_id} was fenced"
            f" by member {known.member_id}.",
        )
    return known


def known_member(core: ConsumerCore, member_id: str, instance_id: str | None) -> Member:
    """Return who sends a request of the classic protocol.

    Raises:
        Refused: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    if instance_id is None:
        member = core.members.get(member_id)
    else:
        member = core.members.by_instance(instance_id)
    if member is None:
        raise Refused(ErrorCode.unknown_member_id, "It is not a member.")
    if member.member_id != member_id:
        raise Refused(ErrorCode.fenced_instance_id, "Another process has its instance id.")
    return member


def _find_static(
    core: ConsumerCore, event: ConsumerHeartbeat, instance_id: str
) -> tuple[Member, str | None]:
    known = core.members.by_instance(instance_id)
    if event.member_epoch != JOINING_EPOCH:
        known = static_member(known, event)
        check_epoch(known, event)
        return known, known.member_id
    if known is None:
        return _newcomer(core, event), None
    if known.member_id == event.member_id:
        return known, known.member_id
    if known.member_epoch != LEAVING_STATIC_EPOCH and known.classic is None:
        raise Refused(
            ErrorCode.unreleased_instance_id,
            f"Static member {event.member_id} with instance id {instance_id} cannot join the"
            f" group because the instance id is owned by member {known.member_id}.",
        )
    return known.replaced_by(_member_id(core, event)), known.member_id


def _newcomer(core: ConsumerCore, event: ConsumerHeartbeat) -> Member:
    if event.member_epoch != JOINING_EPOCH:
        raise Refused(
            ErrorCode.unknown_member_id,
            f"Member {event.member_id} is not a member of group {core.group_id}.",
        )
    core.check_size()
    return Member(member_id=_member_id(core, event))


def _member_id(core: ConsumerCore, event: ConsumerHeartbeat) -> str:
    return event.member_id or core.config.new_uuid()
