"""The consumer protocol's state machine (KIP-848): one group, driven by its members' heartbeats.

    consumer_checks.py, consumer_identity.py   what a heartbeat must say, who it is from
    consumer_core.py, consumer_reconcile.py    the group, and one member's next step
    consumer_members.py, consumer_member.py    the data; consumer_said.py: how much that may be
    consumer_document.py                       how it is kept
    consumer_description.py                    how it is shown
    subscriptions.py                           from names and patterns to topics
    consumer_visible.py, shown_topics.py       which of these members may know of, by ACLs
    assignors.py, assignor_*.py                the target
    consumer_classic*.py, consumer_protocol.py members that speak the classic protocol
    consumer_migration.py                      from a classic group, and back to one

Nobody waits for others: each heartbeat is answered at once, and leads its member one step on.
"""

from collections.abc import Set
from dataclasses import replace
from typing import Final, Self

from kio.schema.errors import ErrorCode

from coordinator import consumer_description
from coordinator.answers import ConsumerHeartbeatAnswer
from coordinator.classic_subscription import CONSUMER_PROTOCOL
from coordinator.config import GroupConfig
from coordinator.consumer_checks import check_request
from coordinator.consumer_core import ConsumerCore
from coordinator.consumer_identity import find_member, static_member
from coordinator.consumer_member import (
    JOINING_EPOCH,
    LEAVING_STATIC_EPOCH,
    NO_PARTITIONS,
    Member,
)
from coordinator.deadlines import THE_GROUP, Deadline
from coordinator.descriptions import ConsumerDescription
from coordinator.effects import Effect, Expired
from coordinator.events import ConsumerEvent, ConsumerHeartbeat, TimerFired, TopicsChanged
from coordinator.refused import Refused
from coordinator.snapshots import GroupSnapshot, GroupState, GroupType
from coordinator.subscriptions import Subscription
from protocol.ids import Partition


class ConsumerGroup:
    """One consumer group.

    Attributes:
        core: its data; consumer_classic.py serves classic members from it.
    """

    group_type: Final = GroupType.CONSUMER
    protocol_type: Final = CONSUMER_PROTOCOL

    def __init__(self, core: ConsumerCore) -> None:
        self.core = core

    @classmethod
    def restore(cls, snapshot: GroupSnapshot, config: GroupConfig, *, now_ms: int) -> Self:
        """Go on with a saved group."""
        return cls(ConsumerCore.restore(snapshot, config, now_ms=now_ms))

    def configure(self, config: GroupConfig) -> None:
        """Follow other limits and times: a member's session those of its next heartbeat."""
        self.core.config = config

    def start(self) -> list[Effect]:
        return self.core.effects()

    def handle(self, event: ConsumerEvent, *, now_ms: int) -> list[Effect]:
        match event:
            case ConsumerHeartbeat():
                return self._heartbeat(event, now_ms)
            case TopicsChanged():
                self.core.see(event.catalog, now_ms)
                return self.core.effects()
            case TimerFired():
                return self._expire(now_ms)

    def _heartbeat(self, event: ConsumerHeartbeat, now_ms: int) -> list[Effect]:
        try:
            check_request(event, self.core.config.consumer.assignors)
            self.core.see(event.catalog, now_ms)
            leaves = event.member_epoch < JOINING_EPOCH
            answer = self._leave(event, now_ms) if leaves else self._go_on(event, now_ms)
        except Refused as refused:
            answer = ConsumerHeartbeatAnswer(
                error_code=refused.error_code, error_message=refused.message
            )
        return self.core.effects(event.token, answer)

    def _go_on(self, event: ConsumerHeartbeat, now_ms: int) -> ConsumerHeartbeatAnswer:
        core = self.core
        before, replaced = find_member(core, event)
        member = _updated(before, event)
        core.check_room(member, replaced)
        core.admit(member.subscription.pattern)
        # nothing is refused from here on
        if member != before or not core.shows_all:
            member = replace(member, subscription=core.shown_to(member, now_ms))
        subscription_changed = member.subscription != before.subscription
        if replaced is not None and replaced != member.member_id:
            core.swap(replaced, member)
        elif member != before or replaced is None:
            core.put(member)
        for deadline in (Deadline.JOIN, Deadline.SYNC) if before.classic is not None else ():
            core.deadlines.cancel(member.member_id, deadline)
        owned = None if event.owned_partitions is None else frozenset(event.owned_partitions)
        after = core.step_to_target(
            member, owned, subscription_changed=subscription_changed, now_ms=now_ms
        )
        is_told = _is_full(event) or after.assigned != before.assigned
        return ConsumerHeartbeatAnswer(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=core.config.consumer.heartbeat_interval_ms,
            assignment=sorted(after.assigned) if is_told else None,
        )

    def _leave(self, event: ConsumerHeartbeat, now_ms: int) -> ConsumerHeartbeatAnswer:
        core = self.core
        member = core.members.get(event.member_id)
        if event.instance_id is not None:
            member = static_member(core.members.by_instance(event.instance_id), event)
        if member is None:
            raise Refused(
                ErrorCode.unknown_member_id,
                f"Member {event.member_id} is not a member of group {core.group_id}.",
            )
        if event.member_epoch == LEAVING_STATIC_EPOCH:
            # its session goes on: until that times out, its partitions wait for it
            away = replace(
                member, member_epoch=LEAVING_STATIC_EPOCH, pending_revocation=NO_PARTITIONS
            )
            core.put(away)
            core.deadlines.cancel(member.member_id, Deadline.REBALANCE)
        else:
            core.remove([member.member_id])
            core.assign(now_ms)
        return ConsumerHeartbeatAnswer(member_id=event.member_id, member_epoch=event.member_epoch)

    def _expire(self, now_ms: int) -> list[Effect]:
        """Remove the members who did not do in time what they had to; assign if it is time."""
        fired = self.core.deadlines.fired(now_ms)
        late = {member_id: deadline for member_id, deadline in fired if member_id != THE_GROUP}
        if late:
            self.core.remove(late)
        self.core.assign(now_ms)
        expired = [
            Expired(member_id=member_id, reason=deadline.value)
            for member_id, deadline in late.items()
        ]
        return [*expired, *self.core.effects()]

    @property
    def state(self) -> GroupState:
        return self.core.state

    @property
    def member_count(self) -> int:
        return len(self.core.members)

    def check_commit(
        self, *, member_id: str, generation_id: int, partitions: Set[Partition]
    ) -> ErrorCode:
        """Tell whether a member may commit offsets of all these partitions at this epoch."""
        if generation_id < 0 and not len(self.core.members):
            return ErrorCode.none  # a tool, or a consumer that assigns itself
        return self._check_committer(member_id, generation_id, partitions)

    def check_transactional_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
        partitions: Set[Partition],
    ) -> ErrorCode:
        """Tell whether a TxnOffsetCommit may be done; who names no member is not checked."""
        names_member = bool(member_id) or instance_id is not None
        if generation_id < 0 and not (names_member and len(self.core.members)):
            return ErrorCode.none
        code = self._check_committer(member_id, generation_id, partitions)
        if code is ErrorCode.stale_member_epoch:  # no version of TxnOffsetCommit knows it
            return ErrorCode.illegal_generation
        return code

    def check_fetch(
        self, *, member_id: str | None, member_epoch: int, is_saving: bool
    ) -> ErrorCode:
        """Tell whether a member may fetch committed offsets at this epoch.

        While the group is saved, a member may not have been told its epoch, and comes with the one
        before; Kafka goes by what has been written, too.
        """
        if not member_id and member_epoch < 0:
            return ErrorCode.none
        member = self.core.members.get(member_id or "")
        if member is not None and is_saving and member.may_believe_in(member_epoch):
            return ErrorCode.none
        return self._check_epoch(member_id or "", member_epoch)

    def _check_committer(self, member_id: str, epoch: int, partitions: Set[Partition]) -> ErrorCode:
        """Accept the previous epoch, too, of who has held all of them since (KIP-1251).

        What the member commits while its next epoch is on the way would be lost otherwise. As in
        Kafka, one partition that it has not held spoils the whole commit.
        """
        member = self.core.members.get(member_id)
        if member is not None and member.may_believe_in(epoch) and partitions <= member.held:
            return ErrorCode.none
        return self._check_epoch(member_id, epoch)

    def _check_epoch(self, member_id: str, epoch: int) -> ErrorCode:
        member = self.core.members.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if member.member_epoch == epoch:
            return ErrorCode.none
        if member.classic is not None:
            return ErrorCode.illegal_generation
        return ErrorCode.stale_member_epoch

    def describe(self) -> ConsumerDescription:
        """Return the group as ConsumerGroupDescribe shows it."""
        return consumer_description.describe(self.core)

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return all subscribed names; None while a pattern could not be resolved yet."""
        return consumer_description.subscribed_topics(self.core)


def _updated(member: Member, event: ConsumerHeartbeat) -> Member:
    """Return the member with what the heartbeat says about it; it speaks the new protocol now."""
    names, pattern = event.subscribed_topic_names, event.subscribed_topic_regex
    subscription = member.subscription
    if names is not None or pattern is not None:
        subscription = Subscription(
            subscription.names if names is None else frozenset(names),
            subscription.pattern if pattern is None else pattern,
            subscription.visible if pattern in (None, subscription.pattern) else None,
        )
    timeout_ms = event.rebalance_timeout_ms
    return replace(
        member,
        instance_id=event.instance_id or member.instance_id,
        rack_id=event.rack_id or member.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        principal=event.principal,
        rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else member.rebalance_timeout_ms,
        subscription=subscription,
        server_assignor=event.server_assignor or member.server_assignor,
        classic=None,
    )


def _is_full(event: ConsumerHeartbeat) -> bool:
    """A member that joins, or is unsure what we know, says everything and wants to be told all."""
    if event.member_epoch == JOINING_EPOCH:
        return True
    subscribes = (
        event.subscribed_topic_names is not None or event.subscribed_topic_regex is not None
    )
    return subscribes and event.rebalance_timeout_ms >= 0 and event.owned_partitions is not None
