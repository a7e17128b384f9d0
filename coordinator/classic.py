"""One group of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

    classic_join.py, classic_static.py     who may join, as whom
    classic_rebalance.py, voting.py        from one generation to the next
    classic_sync.py, classic_leave.py      what members ask, how they go, what time does
    classic_state.py, classic_members.py   the data
    classic_document.py                    how it is kept
    classic_description.py                 how it is shown

Restarts need no rebalance (KIP-345 for clients, the saved generation for coordinators): a restored
group gives every member a full session and goes on when they are heard of again.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Self

from kio.schema.errors import ErrorCode

from coordinator import classic_description
from coordinator.classic_document import restored_state
from coordinator.classic_join import join
from coordinator.classic_leave import leave, time_passed
from coordinator.classic_members import ClassicMember, ClassicMembers
from coordinator.classic_rebalance import begin_rebalance
from coordinator.classic_state import ClassicState, answer_parked
from coordinator.classic_sync import check_commit, check_transactional_commit, heartbeat, sync
from coordinator.config import GroupConfig
from coordinator.descriptions import ClassicDescription
from coordinator.effects import ArmTimer, Effect
from coordinator.events import ClassicEvent, Heartbeat, Join, Leave, Sync, TimerFired
from coordinator.snapshots import GroupSnapshot, GroupState, GroupType


class ClassicGroup:
    """The state machine. Heartbeats cost O(1), everything else at most O(members)."""

    group_type: Final = GroupType.CLASSIC

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        """A group that never had a member."""
        self._state = ClassicState(group_id=group_id, config=config)
        self._armed_ms: int | None = None

    @classmethod
    def restore(cls, snapshot: GroupSnapshot, config: GroupConfig, *, now_ms: int) -> Self:
        """Go on with a group that another coordinator began; `start` has to follow."""
        group = cls(snapshot.group_id, config)
        group._state = restored_state(snapshot, config, now_ms)
        return group

    @classmethod
    def of_members(
        cls,
        group_id: str,
        config: GroupConfig,
        *,
        generation_id: int,
        protocol_type: str,
        members: Iterable[ClassicMember],
        now_ms: int,
    ) -> Self:
        """Make a stable group of members that came from elsewhere (KIP-848, a downgrade).

        They keep their assignments and each gets a full session. A group without members is Empty.
        `rebalance` has to follow.
        `generation_id` is at least as high as what any of them was ever told; at least one protocol
        is supported by all of them; the first one leads.
        """
        group = cls(group_id, config)
        state = group._state
        state.generation_id = generation_id
        state.protocol_type = protocol_type
        state.members = ClassicMembers(members)
        for member in state.members.values():
            member.heard(now_ms)
        if state.members:
            state.state = GroupState.STABLE
            state.protocol_name = state.members.select_protocol()
        return group

    def configure(self, config: GroupConfig) -> None:
        """Follow other limits and times, each from when it is needed the next time."""
        self._state.config = config

    def start(self) -> list[Effect]:
        """Arm the timer of a group that was restored or made of members; called once."""
        return self._with_timer([])

    def handle(self, event: ClassicEvent, *, now_ms: int) -> list[Effect]:
        """Change by one event and return what has to be done, in this order."""
        match event:
            case Heartbeat():
                # deadlines only become later by it, and TimerFired looks at what is really due
                return heartbeat(self._state, event, now_ms)
            case Join():
                return self._with_timer(join(self._state, event, now_ms))
            case Sync():
                return self._with_timer(sync(self._state, event, now_ms))
            case Leave():
                return self._with_timer(leave(self._state, event, now_ms))
            case TimerFired():
                self._armed_ms = None
                return self._with_timer(time_passed(self._state, now_ms))

    def rebalance(self, *, now_ms: int) -> list[Effect]:
        """Ask all members to join again."""
        return self._with_timer(begin_rebalance(self._state, now_ms))

    def answer_parked(self, error_code: ErrorCode) -> list[Effect]:
        """Answer every parked request with an error: the group is about to be another machine."""
        return [
            effect
            for member in self._state.members.values()
            for effect in answer_parked(member, error_code, member.member_id)
        ]

    def check_commit(
        self, *, member_id: str, instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        """Tell whether an OffsetCommit may be done; if so, it counts as a heartbeat.

        `generation_id` is below 0 from one who is no member.
        """
        return check_commit(
            self._state,
            member_id=member_id,
            instance_id=instance_id,
            generation_id=generation_id,
            now_ms=now_ms,
        )

    def check_transactional_commit(
        self, *, member_id: str, instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Tell whether a TxnOffsetCommit may be done; it is no heartbeat."""
        return check_transactional_commit(
            self._state,
            member_id=member_id,
            instance_id=instance_id,
            generation_id=generation_id,
        )

    def check_fetch(
        self, *, member_id: str | None, member_epoch: int, is_saving: bool
    ) -> ErrorCode:
        """Tell whether a member may fetch committed offsets: here anybody may, as in Kafka."""
        return ErrorCode.none

    def describe(self) -> ClassicDescription:
        """Return the group as DescribeGroups shows it."""
        return classic_description.describe(self._state)

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that the members want; None if nobody can tell."""
        return classic_description.subscribed_topics(self._state)

    @property
    def group_id(self) -> str:
        return self._state.group_id

    @property
    def state(self) -> GroupState:
        return self._state.state

    @property
    def generation_id(self) -> int:
        return self._state.generation_id

    @property
    def protocol_type(self) -> str:
        """Of the members, or of the last ones; empty if the group never had any."""
        return self._state.protocol_type

    @property
    def member_count(self) -> int:
        return len(self._state.members)

    @property
    def members(self) -> Mapping[str, ClassicMember]:
        """The members by member id, in the order in which they joined; not to be changed."""
        return self._state.members

    def _with_timer(self, effects: list[Effect]) -> list[Effect]:
        deadline_ms = self._state.next_deadline_ms()
        if deadline_ms != self._armed_ms:
            self._armed_ms = deadline_ms
            effects.append(ArmTimer(deadline_ms=deadline_ms))
        return effects
