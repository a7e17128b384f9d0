"""A static member that comes back under a new member id (KIP-345, KIP-814)."""

from kio.schema.errors import ErrorCode

from coordinator.classic_document import save
from coordinator.classic_members import ClassicMember
from coordinator.classic_rebalance import begin_rebalance
from coordinator.classic_state import ClassicState, answer_parked, joined
from coordinator.classic_subscription import (
    CONSUMER_PROTOCOL,
    UnreadableSubscription,
    read_subscribed_topics,
)
from coordinator.effects import Effect, Reply
from coordinator.events import Join


def replace_static_member(
    state: ClassicState, event: Join, member: ClassicMember, member_id: str, now_ms: int
) -> list[Effect]:
    """Let a restarted process take the place of the one before it, which is fenced.

    In a stable group nothing else changes, and it gets the assignment of its predecessor. But a
    generation that is being assigned begins anew: its leader may be assigning to the old id.
    """
    old_id = member.member_id
    old_leader_id = state.members.leader_id
    effects = answer_parked(member, ErrorCode.fenced_instance_id, old_id)
    wanted_before = _wanted(state, member)
    state.members.rename(member, member_id)
    state.members.set_protocols(member, event.protocols)
    member.client_id = event.client_id
    member.client_host = event.client_host
    member.session_timeout_ms = event.session_timeout_ms
    member.rebalance_timeout_ms = event.rebalance_timeout_ms
    member.is_new = False
    member.expires_ms = now_ms + member.session_timeout_ms
    if old_id in state.unsynced:
        state.unsynced.remove(old_id)
        state.unsynced.add(member_id)
    if state.is_stable and _generation_stands(state, member, wanted_before):
        return [*effects, save(state), _tell(state, event, member, old_leader_id)]
    member.parked_join = event
    return effects + begin_rebalance(state, now_ms)


def _tell(
    state: ClassicState, event: Join, member: ClassicMember, old_leader_id: str | None
) -> Reply:
    """Answer with the current generation.

    A leader that does not know skip_assignment would assign, and its group would not ask for it:
    it is told that its old self leads, so it follows (as Kafka does).
    """
    if not event.skips_assignment:
        answer = joined(state, member, leader_id=old_leader_id)
    else:
        leads = state.members.leader_id == member.member_id
        answer = joined(state, member, skip_assignment=leads)
    return Reply(token=event.token, answer=answer)


def _generation_stands(
    state: ClassicState, member: ClassicMember, wanted_before: frozenset[str] | None
) -> bool:
    """Whether the assignment is still right.

    Kafka only looks at the name of the protocol, so that new topics of a restarted member stay
    unread until the next rebalance; here other topics begin one. The metadata as a whole is no
    measure: it tells what the old process owned, and differs at every restart.
    """
    if state.members.select_protocol() != state.protocol_name:
        return False
    return _wanted(state, member) == wanted_before


def _wanted(state: ClassicState, member: ClassicMember) -> frozenset[str] | None:
    """Return the topics that a consumer wants; None if nobody can tell."""
    if state.protocol_type != CONSUMER_PROTOCOL or state.protocol_name is None:
        return None
    try:
        return read_subscribed_topics(member.metadata(state.protocol_name))
    except UnreadableSubscription:
        return None
