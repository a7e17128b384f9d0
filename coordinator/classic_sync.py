"""SyncGroup, Heartbeat and commits of offsets: what members of the current generation ask."""

from dataclasses import replace

from kio.schema.errors import ErrorCode

from coordinator.answers import HeartbeatAnswer, SyncAnswer
from coordinator.classic_document import save
from coordinator.classic_state import ClassicState, answer_parked_sync, assigned
from coordinator.effects import Effect, Reply
from coordinator.events import Heartbeat, Sync
from coordinator.snapshots import GroupState


def sync(state: ClassicState, event: Sync, now_ms: int) -> list[Effect]:
    """Answer a SyncGroup, or park it until the leader has sent the assignment."""
    error_code = _check_sync(state, event)
    if error_code is not ErrorCode.none:
        return [Reply(token=event.token, answer=SyncAnswer(error_code=error_code))]
    member = state.members[event.member_id]
    state.synced(member.member_id)
    if state.is_stable:
        member.heard(now_ms)
        return [Reply(token=event.token, answer=assigned(state, member))]
    effects = answer_parked_sync(member, ErrorCode.rebalance_in_progress)
    member.parked_sync = replace(event, assignments={})  # only the leader's count, and only now
    if member.member_id == state.members.leader_id:
        effects += _assign(state, event, now_ms)
    return effects


def heartbeat(state: ClassicState, event: Heartbeat, now_ms: int) -> list[Effect]:
    """Give a member of the current generation another session, also while it shall rejoin."""
    error_code = state.members.check(event.member_id, event.instance_id)
    if error_code is ErrorCode.none and event.generation_id != state.generation_id:
        error_code = ErrorCode.illegal_generation
    if error_code is ErrorCode.none:
        state.members[event.member_id].heard(now_ms)
        if state.is_preparing:
            error_code = ErrorCode.rebalance_in_progress
    return [Reply(token=event.token, answer=HeartbeatAnswer(error_code=error_code))]


def check_commit(
    state: ClassicState,
    *,
    member_id: str,
    instance_id: str | None,
    generation_id: int,
    now_ms: int,
) -> ErrorCode:
    """Tell whether an OffsetCommit may be done; if so, it counts as a heartbeat.

    Without a generation (below 0) it comes from an admin client or from a consumer that assigns
    its partitions itself: allowed while the group has no members.
    """
    is_empty = state.state is GroupState.EMPTY
    if generation_id < 0 and is_empty:
        return ErrorCode.none
    error_code = state.members.check(member_id, instance_id)
    if error_code is not ErrorCode.none:
        return error_code
    if generation_id != state.generation_id:
        return ErrorCode.illegal_generation
    if state.is_completing:  # it has to learn what it owns now, before it may speak for it
        return ErrorCode.rebalance_in_progress
    state.members[member_id].heard(now_ms)
    return ErrorCode.none


def check_transactional_commit(
    state: ClassicState, *, member_id: str, instance_id: str | None, generation_id: int
) -> ErrorCode:
    """Tell whether a TxnOffsetCommit may be done (KIP-447); it is no sign of life.

    Producers of older versions do not say for which member they commit: nobody is checked then, and
    only the transactional id fences. Whoever names a generation that is going on may commit at any
    time, during a rebalance, too: the next member waits until the transaction has ended.
    """
    names_member = bool(member_id) or instance_id is not None
    if generation_id < 0 and (state.state is GroupState.EMPTY or not names_member):
        return ErrorCode.none
    error_code = state.members.check(member_id, instance_id)
    if error_code is ErrorCode.none and generation_id != state.generation_id:
        return ErrorCode.illegal_generation
    return error_code


def _check_sync(state: ClassicState, event: Sync) -> ErrorCode:
    error_code = state.members.check(event.member_id, event.instance_id)
    if error_code is not ErrorCode.none:
        return error_code
    if event.generation_id != state.generation_id:
        return ErrorCode.illegal_generation
    named_type, named_protocol = event.protocol_type, event.protocol_name  # None before v5
    if named_type not in {None, state.protocol_type}:
        return ErrorCode.inconsistent_group_protocol
    if named_protocol not in {None, state.protocol_name}:
        return ErrorCode.inconsistent_group_protocol
    return ErrorCode.rebalance_in_progress if state.is_preparing else ErrorCode.none


def _assign(state: ClassicState, event: Sync, now_ms: int) -> list[Effect]:
    """Take the leader's assignment; members that it left out get nothing."""
    state.state = GroupState.STABLE
    for member in state.members.values():
        member.assignment = event.assignments.get(member.member_id, b"")
    effects: list[Effect] = [save(state)]
    for member in state.members.values():
        parked, member.parked_sync = member.parked_sync, None
        if parked is not None:
            member.heard(now_ms)
            effects.append(Reply(token=parked.token, answer=assigned(state, member)))
    return effects
