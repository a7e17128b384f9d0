"""What a classic group is at one moment, and the words that all of its functions need."""

from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from coordinator.answers import JoinAnswer, JoinedMember, SyncAnswer
from coordinator.classic_members import ClassicMember, ClassicMembers
from coordinator.config import GroupConfig
from coordinator.effects import Effect, Reply
from coordinator.snapshots import GroupState


@dataclass(slots=True, kw_only=True)
class InitialDelay:
    """The first rebalance of an empty group waits for members (KIP-134).

    Attributes:
        delay_ms: the wait that is under way.
        remaining_ms: how much longer it may become; at most the rebalance timeout in total.
        grew: somebody came during this wait, so another one follows.
    """

    delay_ms: int
    remaining_ms: int
    grew: bool = False


@dataclass(slots=True, kw_only=True)
class ClassicState:
    """A classic group. It changes in place; only the functions of coordinator/classic*.py do so.

    Attributes:
        generation_id: of the last generation that was begun; 0 before the first.
        protocol_type: "consumer", "connect"; empty while the group never had a member.
        protocol_name: what this generation follows; None without members.
        pending: when ids that were handed out end unless they join (KIP-394), by member id.
        unsynced: members of this generation that did not send SyncGroup yet.
        join_deadline_ms: end of PreparingRebalance, whoever is missing by then.
        sync_deadline_ms: when the unsynced are removed; None if there are none.
        initial: only in PreparingRebalance after Empty.
    """

    group_id: str
    config: GroupConfig
    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    members: ClassicMembers = field(default_factory=ClassicMembers)
    pending: dict[str, int] = field(default_factory=dict)
    unsynced: set[str] = field(default_factory=set)
    join_deadline_ms: int | None = None
    sync_deadline_ms: int | None = None
    initial: InitialDelay | None = None

    @property
    def is_preparing(self) -> bool:
        return self.state is GroupState.PREPARING_REBALANCE

    @property
    def is_completing(self) -> bool:
        return self.state is GroupState.COMPLETING_REBALANCE

    @property
    def is_stable(self) -> bool:
        return self.state is GroupState.STABLE

    def next_deadline_ms(self) -> int | None:
        """Return when something ends if nobody is heard of before; None if nothing can."""
        deadlines = [member.expires_ms for member in self.members.values() if member.may_expire]
        deadlines += self.pending.values()
        deadlines += [
            deadline
            for deadline in (self.join_deadline_ms, self.sync_deadline_ms)
            if deadline is not None
        ]
        return min(deadlines, default=None)

    def synced(self, member_id: str) -> None:
        """Wait no longer for a member's SyncGroup; after the last one, for none."""
        self.unsynced.discard(member_id)
        if not self.unsynced:
            self.sync_deadline_ms = None


def joined(
    state: ClassicState,
    member: ClassicMember,
    *,
    leader_id: str | None = None,
    skip_assignment: bool = False,
) -> JoinAnswer:
    """Return what a member of the current generation is told.

    `leader_id` is who it is told to be the leader; None for the one who is.
    """
    assert state.protocol_name is not None
    if leader_id is None:
        leader_id = state.members.leader_id
    members: list[JoinedMember] = []
    if member.member_id == leader_id:
        members = [
            JoinedMember(
                member_id=other.member_id,
                instance_id=other.instance_id,
                metadata=other.metadata(state.protocol_name),
            )
            for other in state.members.values()
        ]
    return JoinAnswer(
        generation_id=state.generation_id,
        protocol_type=state.protocol_type,
        protocol_name=state.protocol_name,
        leader=leader_id or "",
        member_id=member.member_id,
        members=members,
        skip_assignment=skip_assignment,
    )


def assigned(state: ClassicState, member: ClassicMember) -> SyncAnswer:
    """Return what a member of a stable group is told."""
    return SyncAnswer(
        protocol_type=state.protocol_type,
        protocol_name=state.protocol_name,
        assignment=member.assignment,
    )


def answer_parked(member: ClassicMember, error_code: ErrorCode, member_id: str) -> list[Effect]:
    """Answer the parked requests of a member with an error.

    `member_id` is for the answer to JoinGroup; empty, it makes the client ask for another one.
    """
    return [
        *answer_parked_join(member, error_code, member_id),
        *answer_parked_sync(member, error_code),
    ]


def answer_parked_join(
    member: ClassicMember, error_code: ErrorCode, member_id: str
) -> list[Effect]:
    parked, member.parked_join = member.parked_join, None
    if parked is None:
        return []
    answer = JoinAnswer(error_code=error_code, member_id=member_id)
    return [Reply(token=parked.token, answer=answer)]


def answer_parked_sync(member: ClassicMember, error_code: ErrorCode) -> list[Effect]:
    parked, member.parked_sync = member.parked_sync, None
    if parked is None:
        return []
    return [Reply(token=parked.token, answer=SyncAnswer(error_code=error_code))]


def remove_member(state: ClassicState, member_id: str) -> list[Effect]:
    """Remove a member; its parked requests learn that it is unknown now, so it may come anew."""
    member = state.members.remove(member_id)
    state.synced(member_id)
    return answer_parked(member, ErrorCode.unknown_member_id, "")
