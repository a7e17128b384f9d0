"""How members go: they leave, or nobody hears of them any more."""

from kio.schema.errors import ErrorCode

from coordinator.answers import LeaveAnswer, LeftMember
from coordinator.classic_rebalance import (
    begin_rebalance,
    complete_if_all_joined,
    join_deadline_passed,
    sync_deadline_passed,
)
from coordinator.classic_state import ClassicState, remove_member
from coordinator.deadlines import Deadline
from coordinator.effects import Effect, Expired, Reply
from coordinator.events import Leave, LeavingMember


def leave(state: ClassicState, event: Leave, now_ms: int) -> list[Effect]:
    """Remove members; those who stay rebalance once for all of them.

    An id that was handed out may be given back, too. Kafka begins a rebalance then; here it does
    not, as that id never held anything.
    """
    effects: list[Effect] = []
    left: list[LeftMember] = []
    count_before = len(state.members)
    for leaving in event.members:
        error_code, lost = _leave_one(state, leaving)
        effects += lost
        left.append(
            LeftMember(
                member_id=leaving.member_id,
                instance_id=leaving.instance_id,
                error_code=error_code,
            )
        )
    effects += _after_loss(state, now_ms, members_lost=len(state.members) < count_before)
    effects.append(Reply(token=event.token, answer=LeaveAnswer(members=left)))
    return effects


def time_passed(state: ClassicState, now_ms: int) -> list[Effect]:
    """Do what is due; nothing if all of it has been put off meanwhile."""
    effects: list[Effect] = []
    count_before = len(state.members)
    for member_id in [key for key, expires_ms in state.pending.items() if expires_ms <= now_ms]:
        del state.pending[member_id]
    for member in [*state.members.values()]:
        if member.may_expire and member.expires_ms <= now_ms:
            effects.append(Expired(member_id=member.member_id, reason=Deadline.SESSION.value))
            effects += remove_member(state, member.member_id)
    effects += _after_loss(state, now_ms, members_lost=len(state.members) < count_before)
    if state.sync_deadline_ms is not None and state.sync_deadline_ms <= now_ms:
        effects += sync_deadline_passed(state, now_ms)
    if state.join_deadline_ms is not None and state.join_deadline_ms <= now_ms:
        effects += join_deadline_passed(state, now_ms)
    return effects


def _leave_one(state: ClassicState, leaving: LeavingMember) -> tuple[ErrorCode, list[Effect]]:
    """Remove one; an admin client names a static member by its instance id alone."""
    if not leaving.member_id:
        member_id = state.members.id_of_instance(leaving.instance_id)
        if member_id is None:
            return ErrorCode.unknown_member_id, []
        return ErrorCode.none, remove_member(state, member_id)
    if leaving.member_id in state.pending:
        del state.pending[leaving.member_id]
        return ErrorCode.none, []
    error_code = state.members.check(leaving.member_id, leaving.instance_id)
    if error_code is not ErrorCode.none:
        return error_code, []
    return ErrorCode.none, remove_member(state, leaving.member_id)


def _after_loss(state: ClassicState, now_ms: int, *, members_lost: bool) -> list[Effect]:
    if members_lost and (state.is_stable or state.is_completing):
        return begin_rebalance(state, now_ms)
    return complete_if_all_joined(state, now_ms)
