"""How a classic group comes from one generation to the next.

Empty, Stable, CompletingRebalance --begin--> PreparingRebalance --complete--> CompletingRebalance
and, when nobody is left, --complete--> Empty
"""

from kio.schema.errors import ErrorCode

from coordinator.classic_document import save
from coordinator.classic_state import ClassicState, InitialDelay, answer_parked_sync, joined
from coordinator.deadlines import Deadline
from coordinator.effects import Effect, Expired, Reply
from coordinator.snapshots import GroupState

MIN_POSTPONED_MS = 1_000
"""A client may ask for a rebalance timeout of 0; a wait that is repeated must still take time."""


def begin_rebalance(state: ClassicState, now_ms: int) -> list[Effect]:
    """Ask everybody to join again, unless that is under way; go on if everybody has."""
    if state.is_preparing:
        return complete_if_all_joined(state, now_ms)
    effects: list[Effect] = []
    if state.is_completing:
        effects += _cancel_syncs(state, now_ms)
    state.unsynced.clear()
    state.sync_deadline_ms = None
    was_empty = state.state is GroupState.EMPTY
    state.state = GroupState.PREPARING_REBALANCE
    timeout_ms = max(state.members.rebalance_timeout_ms, 0)
    delay_ms = state.config.classic.initial_rebalance_delay_ms
    if was_empty and delay_ms == 0:
        return _complete_join(state, now_ms)
    if was_empty:
        remaining_ms = max(timeout_ms - delay_ms, 0)
        state.initial = InitialDelay(delay_ms=delay_ms, remaining_ms=remaining_ms)
        state.join_deadline_ms = now_ms + delay_ms
        return []
    state.join_deadline_ms = now_ms + timeout_ms
    return effects + complete_if_all_joined(state, now_ms)


def complete_if_all_joined(state: ClassicState, now_ms: int) -> list[Effect]:
    """Begin the next generation if it waits for nobody; ids handed out count as members here."""
    if not state.is_preparing or state.initial is not None or state.pending:
        return []
    if state.members.joined_count < len(state.members):
        return []
    return _complete_join(state, now_ms)


def join_deadline_passed(state: ClassicState, now_ms: int) -> list[Effect]:
    """Go on with those who joined; the initial delay is extended while members keep coming."""
    initial = state.initial
    if initial is None or not initial.grew or initial.remaining_ms == 0:
        return _complete_join(state, now_ms)
    delay_ms = min(state.config.classic.initial_rebalance_delay_ms, initial.remaining_ms)
    state.initial = InitialDelay(
        delay_ms=delay_ms, remaining_ms=max(initial.remaining_ms - initial.delay_ms, 0)
    )
    state.join_deadline_ms = now_ms + delay_ms
    return []


def sync_deadline_passed(state: ClassicState, now_ms: int) -> list[Effect]:
    """Remove members that learned of the generation but never asked for their assignment."""
    expired: list[Effect] = []
    for member_id in sorted(state.unsynced):
        state.members.remove(member_id)  # nothing is parked: it did not sync, and may not join
        expired.append(Expired(member_id=member_id, reason=Deadline.SYNC.value))
    return expired + begin_rebalance(state, now_ms)


def _cancel_syncs(state: ClassicState, now_ms: int) -> list[Effect]:
    """Send members that wait for an assignment back to join; what they held is void."""
    effects: list[Effect] = []
    for member in state.members.values():
        member.assignment = b""
        if member.parked_sync is not None:
            member.heard(now_ms)
            effects += answer_parked_sync(member, ErrorCode.rebalance_in_progress)
    return effects


def _complete_join(state: ClassicState, now_ms: int) -> list[Effect]:
    """Begin the next generation with those who joined.

    A static member that did not join stays until its session ends: it is expected back (KIP-345).
    """
    members = state.members
    expired: list[Effect] = []
    for member in [*members.values()]:
        if member.parked_join is None and member.instance_id is None:
            members.remove(member.member_id)
            expired.append(Expired(member_id=member.member_id, reason=Deadline.JOIN.value))
    state.initial = None
    if members and not members.elect_joined_leader():
        postponed_ms = max(members.rebalance_timeout_ms, MIN_POSTPONED_MS)
        state.join_deadline_ms = now_ms + postponed_ms  # only static members, all of them away
        return expired
    state.join_deadline_ms = None
    state.generation_id += 1
    if not members:
        state.state = GroupState.EMPTY
        state.protocol_name = None
        return [*expired, save(state)]
    return expired + _tell_members(state, now_ms)


def _tell_members(state: ClassicState, now_ms: int) -> list[Effect]:
    members = state.members
    state.state = GroupState.COMPLETING_REBALANCE
    state.protocol_name = members.select_protocol()
    state.unsynced = set(members)
    state.sync_deadline_ms = now_ms + max(members.rebalance_timeout_ms, 0)
    effects: list[Effect] = [save(state)]
    for member in members.values():
        parked, member.parked_join = member.parked_join, None
        member.is_new = False
        member.expires_ms = now_ms + member.session_timeout_ms
        if parked is not None:
            effects.append(Reply(token=parked.token, answer=joined(state, member)))
    return effects
