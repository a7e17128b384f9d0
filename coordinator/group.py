"""One group, whichever protocol its members speak; the only class that brokers hold.

    group = Group.restore(snapshot, config, now_ms=...)  or  Group(group_id, config)
    effects = group.start(now_ms=...)                     once
    effects = group.handle(event, now_ms=...)             for every event

A group's type follows its members, as in Kafka with group.consumer.migration.policy=bidirectional:
a new group, or one without members, becomes what the first to join speaks; offsets stay. A group
of classic consumers becomes a consumer group when one joins that speaks the consumer protocol, and
goes back when the last such member has gone.
"""

from collections.abc import Set
from typing import Self

from kio.schema.errors import ErrorCode

from coordinator.answers import ConsumerHeartbeatAnswer
from coordinator.classic import ClassicGroup
from coordinator.config import GroupConfig
from coordinator.consumer import ConsumerGroup
from coordinator.consumer_checks import check_request
from coordinator.consumer_classic import handle_classic
from coordinator.consumer_member import JOINING_EPOCH
from coordinator.consumer_migration import downgraded, may_be_downgraded, upgraded
from coordinator.descriptions import GroupDescription
from coordinator.effects import ArmTimer, Effect, Reply, Save
from coordinator.events import (
    ClassicEvent,
    ConsumerEvent,
    ConsumerHeartbeat,
    Heartbeat,
    Join,
    Leave,
    Sync,
    TimerFired,
    TopicsChanged,
)
from coordinator.refused import Refused
from coordinator.snapshots import GroupSnapshot, GroupState, GroupType
from protocol.ids import Partition


class Group:
    """Feeds the machine of the group's type."""

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self.group_id = group_id
        self._config = config
        self._machine: ClassicGroup | ConsumerGroup = ClassicGroup(group_id, config)

    @classmethod
    def restore(cls, snapshot: GroupSnapshot, config: GroupConfig, *, now_ms: int) -> Self:
        """Go on with a group that another coordinator saved.

        Every member has one whole session timeout from now on. A consumer group waits for topics
        with what needs them, so `TopicsChanged` should follow soon.
        """
        group = cls(snapshot.group_id, config)
        if snapshot.group_type is GroupType.CONSUMER:
            group._machine = ConsumerGroup.restore(snapshot, config, now_ms=now_ms)
        else:
            group._machine = ClassicGroup.restore(snapshot, config, now_ms=now_ms)
        return group

    def configure(self, config: GroupConfig) -> None:
        """Follow other limits and times, each from when it is needed the next time."""
        self._config = config
        self._machine.configure(config)

    def start(self, *, now_ms: int) -> list[Effect]:
        """Begin; called once, before any event."""
        return self._maybe_downgraded(self._machine.start(), now_ms)

    def handle(self, event: ClassicEvent | ConsumerEvent, *, now_ms: int) -> list[Effect]:
        """Change the group by one event; return what to do, in order."""
        if isinstance(self._machine, ClassicGroup):
            return self._to_classic(self._machine, event, now_ms)
        if isinstance(event, Join) and not self.member_count:
            self._machine = ClassicGroup(self.group_id, self._config)
            return self._machine.handle(event, now_ms=now_ms)
        return self._maybe_downgraded(self._to_consumer(self._machine, event, now_ms), now_ms)

    def _to_classic(
        self, classic: ClassicGroup, event: ClassicEvent | ConsumerEvent, now_ms: int
    ) -> list[Effect]:
        match event:
            case ConsumerHeartbeat():
                return self._upgrade(classic, event, now_ms)
            case TopicsChanged():
                return []
            case Join() | Sync() | Heartbeat() | Leave() | TimerFired():
                return classic.handle(event, now_ms=now_ms)

    def _to_consumer(
        self, consumer: ConsumerGroup, event: ClassicEvent | ConsumerEvent, now_ms: int
    ) -> list[Effect]:
        match event:
            case Join() | Sync() | Heartbeat() | Leave():
                return handle_classic(consumer.core, event, now_ms)
            case ConsumerHeartbeat() | TopicsChanged() | TimerFired():
                return consumer.handle(event, now_ms=now_ms)

    def _upgrade(
        self, classic: ClassicGroup, event: ConsumerHeartbeat, now_ms: int
    ) -> list[Effect]:
        """Make this a consumer group if a member joins, and nothing speaks against it."""
        try:
            check_request(event, self._config.consumer.assignors)
            self._check_joins(event)
            consumer = ConsumerGroup(upgraded(classic, event.catalog, self._config, now_ms))
        except Refused as refused:
            return _refuse(event, refused)
        effects = consumer.handle(event, now_ms=now_ms)
        if not any(isinstance(effect, Save) for effect in effects):  # the join was refused
            return [effect for effect in effects if isinstance(effect, Reply)]
        self._machine = consumer
        return [*classic.answer_parked(ErrorCode.rebalance_in_progress), *effects]

    def _check_joins(self, event: ConsumerHeartbeat) -> None:
        if event.member_epoch != JOINING_EPOCH:
            message = f"Group {self.group_id} is not a consumer group."
            raise Refused(ErrorCode.group_id_not_found, message)

    def _maybe_downgraded(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        if not isinstance(self._machine, ConsumerGroup):
            return effects
        core = self._machine.core
        if not may_be_downgraded(core):
            return effects
        self._machine, more = downgraded(core, now_ms)
        return [effect for effect in effects if not isinstance(effect, ArmTimer)] + [*more]

    def check_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
        partitions: Set[Partition],
        now_ms: int,
    ) -> ErrorCode:
        """Tell whether this member may commit offsets now.

        Args:
            member_id: empty (with generation -1) for a committer that is no member.
            instance_id: of a static member, if the request has it.
            generation_id: generation, or member epoch of a consumer group's member.
            partitions: whose offsets they are.
            now_ms: a commit of a classic member is a sign of life.
        """
        if isinstance(self._machine, ClassicGroup):
            return self._machine.check_commit(
                member_id=member_id,
                instance_id=instance_id,
                generation_id=generation_id,
                now_ms=now_ms,
            )
        return self._machine.check_commit(
            member_id=member_id, generation_id=generation_id, partitions=partitions
        )

    def check_transactional_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
        partitions: Set[Partition],
    ) -> ErrorCode:
        """Tell whether this member may commit offsets in a transaction now (KIP-447).

        Args:
            member_id: empty, with generation -1, from a producer that does not say.
            instance_id: of a static member, if the request has it.
            generation_id: generation, or member epoch of a consumer group's member.
            partitions: whose offsets they are.
        """
        if isinstance(self._machine, ClassicGroup):
            return self._machine.check_transactional_commit(
                member_id=member_id, instance_id=instance_id, generation_id=generation_id
            )
        return self._machine.check_transactional_commit(
            member_id=member_id,
            instance_id=instance_id,
            generation_id=generation_id,
            partitions=partitions,
        )

    def check_fetch(
        self, *, member_id: str | None, member_epoch: int, is_saving: bool
    ) -> ErrorCode:
        """Tell whether this member may fetch committed offsets now (OffsetFetch v9 and later).

        Args:
            member_id: None, or empty, with epoch -1 if the request names no member.
            member_epoch: as the member knows it.
            is_saving: what came before is not durable yet, nor told.
        """
        return self._machine.check_fetch(
            member_id=member_id, member_epoch=member_epoch, is_saving=is_saving
        )

    def describe(self) -> GroupDescription:
        """Return the group as DescribeGroups or ConsumerGroupDescribe shows it."""
        return self._machine.describe()

    @property
    def group_type(self) -> GroupType:
        return self._machine.group_type

    @property
    def state(self) -> GroupState:
        return self._machine.state

    @property
    def protocol_type(self) -> str:
        """Of its members, or of the last ones; empty if it never had any."""
        return self._machine.protocol_type

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def member_count(self) -> int:
        return self._machine.member_count

    @property
    def needs_catalog(self) -> bool:
        """Whether it wants `TopicsChanged` events (consumer groups)."""
        return self.group_type is GroupType.CONSUMER

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the names of all topics that members subscribe to; None if nobody can tell."""
        return self._machine.subscribed_topics()


def _refuse(event: ConsumerHeartbeat, refused: Refused) -> list[Effect]:
    answer = ConsumerHeartbeatAnswer(error_code=refused.error_code, error_message=refused.message)
    return [Reply(token=event.token, answer=answer)]
