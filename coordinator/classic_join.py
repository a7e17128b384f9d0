"""JoinGroup: who may join, as whom, and what that sets off."""

from kio.schema.errors import ErrorCode

from coordinator.answers import JoinAnswer
from coordinator.classic_members import ClassicMember
from coordinator.classic_rebalance import begin_rebalance, complete_if_all_joined
from coordinator.classic_state import (
    ClassicState,
    answer_parked_join,
    joined,
    remove_member,
)
from coordinator.classic_static import replace_static_member
from coordinator.effects import Effect, Reply
from coordinator.events import Join
from coordinator.snapshots import GroupState

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a first JoinGroup may be parked: its client may be gone, and comes again otherwise."""


def join(state: ClassicState, event: Join, now_ms: int) -> list[Effect]:
    """Answer a JoinGroup, or park it until the group is ready."""
    if not _has_room(state, event):
        return _turn_away(state, event, now_ms)
    if not state.members.may_say(event.protocols, _known(state, event)):
        return _refuse(event, ErrorCode.group_max_size_reached)
    if not _fits(state, event):
        return _refuse(event, ErrorCode.inconsistent_group_protocol)
    if event.member_id:
        return _join_again(state, event, now_ms)
    return _join_new(state, event, now_ms)


def _has_room(state: ClassicState, event: Join) -> bool:
    """Whether the group may have this member (group.max.size).

    During a rebalance, places are for those who join first, whoever was here before. Two
    differences from Kafka: a static member that restarts finds its place even in a full group,
    as it takes nobody else's; and not more ids are handed out than a group can have members.
    """
    max_size = state.config.classic.max_size
    member = _known(state, event)
    is_unnamed = not event.member_id and member is None
    if event.needs_member_id and is_unnamed and len(state.pending) >= max_size:
        return False
    if state.state is GroupState.EMPTY:
        return True
    if state.is_preparing:
        awaited = member is not None and member.parked_join is not None
        return awaited or state.members.joined_count < max_size
    return member is not None or len(state.members) < max_size


def _known(state: ClassicState, event: Join) -> ClassicMember | None:
    """Return the member that joins again; None if this is a new one."""
    member_id = event.member_id or state.members.id_of_instance(event.instance_id)
    return None if member_id is None else state.members.get(member_id)


def _turn_away(state: ClassicState, event: Join, now_ms: int) -> list[Effect]:
    """Refuse one too many; if it was a member or had an id, the group waits for it no longer."""
    effects: list[Effect] = []
    state.pending.pop(event.member_id, None)
    if state.members.check(event.member_id, event.instance_id) is ErrorCode.none:
        effects += remove_member(state, event.member_id)
    effects.append(
        Reply(token=event.token, answer=JoinAnswer(error_code=ErrorCode.group_max_size_reached))
    )
    return effects + complete_if_all_joined(state, now_ms)


def _fits(state: ClassicState, event: Join) -> bool:
    """Whether the group and this member could agree on a protocol."""
    if state.state is GroupState.EMPTY:
        return bool(event.protocol_type and event.protocols)
    return event.protocol_type == state.protocol_type and state.members.supported_by_all(
        event.protocols
    )


def _join_new(state: ClassicState, event: Join, now_ms: int) -> list[Effect]:
    member_id = state.config.new_member_id(event.instance_id or event.client_id)
    if event.instance_id is not None:
        old_id = state.members.id_of_instance(event.instance_id)
        if old_id is not None:
            return replace_static_member(state, event, state.members[old_id], member_id, now_ms)
    elif event.needs_member_id:
        state.pending[member_id] = now_ms + event.session_timeout_ms
        return _refuse(event, ErrorCode.member_id_required, member_id)
    return _add_member(state, event, member_id, now_ms)


def _join_again(state: ClassicState, event: Join, now_ms: int) -> list[Effect]:
    """Join with a member id that the group gave."""
    if event.member_id in state.pending and event.instance_id is None:
        return _add_member(state, event, event.member_id, now_ms)
    error_code = state.members.check(event.member_id, event.instance_id)
    if error_code is not ErrorCode.none:
        return _refuse(event, error_code)
    member = state.members[event.member_id]
    if _is_up_to_date(state, member, event):
        member.heard(now_ms)
        return [Reply(token=event.token, answer=joined(state, member))]
    effects = answer_parked_join(member, ErrorCode.rebalance_in_progress, member.member_id)
    state.members.set_protocols(member, event.protocols)
    member.session_timeout_ms = event.session_timeout_ms
    member.rebalance_timeout_ms = event.rebalance_timeout_ms
    member.parked_join = event
    return effects + begin_rebalance(state, now_ms)


def _is_up_to_date(state: ClassicState, member: ClassicMember, event: Join) -> bool:
    """Whether it may just be told of the current generation (it missed an answer, most likely).

    The leader of a stable group joins again to assign anew: it saw topics change, for instance.
    """
    if state.is_preparing or not member.supports_the_same(event.protocols):
        return False
    return state.is_completing or member.member_id != state.members.leader_id


def _add_member(state: ClassicState, event: Join, member_id: str, now_ms: int) -> list[Effect]:
    state.pending.pop(member_id, None)
    if not state.members:
        state.protocol_type = event.protocol_type
    if state.initial is not None:
        state.initial.grew = True
    state.members.add(
        ClassicMember(
            member_id=member_id,
            instance_id=event.instance_id,
            client_id=event.client_id,
            client_host=event.client_host,
            session_timeout_ms=event.session_timeout_ms,
            rebalance_timeout_ms=event.rebalance_timeout_ms,
            protocols=tuple(event.protocols),
            expires_ms=now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS,
            is_new=True,
            parked_join=event,
        )
    )
    return begin_rebalance(state, now_ms)


def _refuse(event: Join, error_code: ErrorCode, member_id: str | None = None) -> list[Effect]:
    answer = JoinAnswer(
        error_code=error_code, member_id=event.member_id if member_id is None else member_id
    )
    return [Reply(token=event.token, answer=answer)]
