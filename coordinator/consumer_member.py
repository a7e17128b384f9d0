"""A member of a consumer group (KIP-848)."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Self

from coordinator.events import Protocol
from coordinator.subscriptions import Subscription
from protocol.ids import Partition

JOINING_EPOCH: Final = 0
LEAVING_STATIC_EPOCH: Final = -2

NO_SUBSCRIPTION: Final = Subscription()
NO_PARTITIONS: Final[frozenset[Partition]] = frozenset()


class MemberState(StrEnum):
    """How far a member is on the way to its target."""

    STABLE = "stable"
    UNREVOKED_PARTITIONS = "unrevoked"
    """It was told to give up partitions and did not say yet that it did."""
    UNRELEASED_PARTITIONS = "unreleased"
    """It waits for partitions that others have not given up yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """What is known of a member that speaks the classic protocol in a consumer group.

    Attributes:
        protocols: as in its last JoinGroup; their metadata are ConsumerProtocolSubscriptions.
    """

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """All that must survive a change of coordinator.

    Attributes:
        rebalance_timeout_ms: how long it may take to give up partitions.
        server_assignor: the assignor it asks for, if any.
        classic: None if it speaks the consumer protocol.
        principal: the user whose rights decide what a pattern gives it; None if nobody wrote down
            who that is.
        member_epoch: of the target that it has reached; -2 while a static member is away.
        previous_epoch: the one before; a member whose answer got lost comes back with it.
        assigned: what it may hold; pending_revocation: what it has yet to give up. Nobody else
            gets any of these.
        target: what it shall hold.
        held: of what it may hold, that which it has held since its previous epoch. Not written
            down: after a change of coordinator it counts as held since the present one.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    principal: str | None = None
    rebalance_timeout_ms: int = -1
    subscription: Subscription = NO_SUBSCRIPTION
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    state: MemberState = MemberState.STABLE
    member_epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    assigned: frozenset[Partition] = NO_PARTITIONS
    pending_revocation: frozenset[Partition] = NO_PARTITIONS
    target: frozenset[Partition] = NO_PARTITIONS
    held: frozenset[Partition] = field(default=NO_PARTITIONS, compare=False)

    def may_believe_in(self, epoch: int) -> bool:
        """Whether it was at that epoch last, and may not have heard of its present one yet."""
        return JOINING_EPOCH < epoch == self.previous_epoch < self.member_epoch

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def replaced_by(self, member_id: str) -> Self:
        """Return a static member's new incarnation: it has all that the old one had, but joins."""
        return replace(
            self, member_id=member_id, member_epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH
        )
