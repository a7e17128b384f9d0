"""One step of a member towards its target (KIP-848, "reconciliation").

First it gives up what it shall not keep, and stays at its epoch until it says that it did. Then it
moves to the epoch of the target and gets what nobody else holds. The rest follows when the others
have let go.
"""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from coordinator.consumer_member import NO_PARTITIONS, Member, MemberState
from protocol.ids import Partition


def reconcile(
    member: Member,
    *,
    target_epoch: int,
    owned: frozenset[Partition] | None,
    owner_of: Callable[[Partition], str | None],
    dropped: Callable[[UUID], bool] | None,
) -> Member:
    """Return the member one step further, or itself if it has to wait.

    Args:
        member: with its target.
        target_epoch: of `member.target`.
        owned: what the member says it holds; None if it does not say.
        owner_of: the member that a partition is assigned to, or who has yet to give it up.
        dropped: if the member's subscription has changed, tells which topics it has left.
    """
    has_left = dropped is not None and not member.assigned <= member.target
    if member.is_reconciled_to(target_epoch) and not has_left:
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_holds(
        owned, member.pending_revocation
    ):
        return member if dropped is None else _revoke_more(member, dropped)
    return _next(member, target_epoch, owned, owner_of)


def _still_holds(owned: frozenset[Partition] | None, partitions: frozenset[Partition]) -> bool:
    return owned is None or not owned.isdisjoint(partitions)


def _revoke_more(member: Member, dropped: Callable[[UUID], bool]) -> Member:
    """While it revokes, a member that left more topics shall give up these, too."""
    more = frozenset(p for p in member.assigned if dropped(p.topic_id))
    if not more:
        return member
    return replace(
        member,
        assigned=member.assigned - more,
        pending_revocation=member.pending_revocation | more,
    )


def _next(
    member: Member,
    target_epoch: int,
    owned: frozenset[Partition] | None,
    owner_of: Callable[[Partition], str | None],
) -> Member:
    kept = member.assigned & member.target
    revoked = member.assigned - kept
    if revoked and _still_holds(owned, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=revoked,
        )
    wanted = member.target - kept
    # what it has just given up itself is free for it again
    free = frozenset(p for p in wanted if owner_of(p) in {None, member.member_id})
    waits = len(free) < len(wanted)
    moved = member.member_epoch != target_epoch
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        previous_epoch=member.member_epoch if moved else member.previous_epoch,
        member_epoch=target_epoch,
        assigned=kept | free,
        pending_revocation=NO_PARTITIONS,
        held=kept if moved else kept & member.held,
    )
