"""What a consumer group is made of, and the steps that every request to it is made of (KIP-848).

The group epoch grows with every change that may move partitions; the target is computed for it;
then each member is led to its target by its own requests (consumer_reconcile.py).

A small group has its target at once. A large one rests between two assignments, as with Kafka's
consumer.assignment.interval.ms, so that hundreds of members that join together cost a few of them;
until then its members go on with the last target, and one who is new has nothing.
"""

from collections.abc import Collection, Iterable, Set
from dataclasses import replace
from functools import partial
from typing import Final, Self
from uuid import UUID

from kio.schema.errors import ErrorCode

from coordinator.answers import Answer
from coordinator.assignor_pools import AssignorMember, TopicSizes
from coordinator.assignors import ASSIGNORS
from coordinator.catalog import Catalog
from coordinator.classic_subscription import CONSUMER_PROTOCOL
from coordinator.config import GroupConfig
from coordinator.consumer_checks import invalid_regex
from coordinator.consumer_document import ConsumerDocument, read_group, write_group
from coordinator.consumer_member import Member, MemberState
from coordinator.consumer_members import Members
from coordinator.consumer_reconcile import reconcile
from coordinator.consumer_visible import ShownMembers
from coordinator.deadlines import THE_GROUP, Deadline, Deadlines
from coordinator.effects import Effect, Reply, Save
from coordinator.events import Token
from coordinator.refused import Refused
from coordinator.snapshots import Document, GroupSnapshot, GroupState, GroupType
from coordinator.subscriptions import InvalidPattern, Subscription, Subscriptions
from protocol.ids import Partition

REST_US_EACH: Final = 20
"""How long a group rests for each of its partitions and members: four times as long as their
assignment takes, or longer. Whoever else is served by this broker has the rest."""


class ConsumerCore:
    """State of a consumer group.

    Attributes:
        epoch: the group epoch. assignment_epoch: the one that the members' targets are of.
        changed: something differs from what was saved last.
    """

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self.group_id = group_id
        self.config = config
        self.members = Members()
        self.subscriptions = Subscriptions()
        self.deadlines = Deadlines()
        self.epoch = 0
        self.assignment_epoch = 0
        self.changed = False
        self._fingerprint = ""
        self._shown = ShownMembers(self.members, self.subscriptions)
        self._rests_until_ms = 0

    @classmethod
    def restore(cls, snapshot: GroupSnapshot, config: GroupConfig, *, now_ms: int) -> Self:
        """Go on with what `snapshot` holds; sessions and revocations have their whole time."""
        core = cls(snapshot.group_id, config)
        kept = read_group(snapshot.document.text)
        core.epoch = snapshot.generation_id
        core.assignment_epoch = kept.assignment_epoch
        core._fingerprint = kept.topics
        for member in kept.members:
            core.members.put(member)
            core.extend_session(member, now_ms)
            core._watch_revocation(member, now_ms)
        return core

    def snapshot(self) -> GroupSnapshot:
        """Return the group as it is now; the members are written down when somebody reads them."""
        now = ConsumerDocument(self.assignment_epoch, self._fingerprint, tuple(self.members))
        return GroupSnapshot(
            group_id=self.group_id,
            group_type=GroupType.CONSUMER,
            state=self.state,
            protocol_type=CONSUMER_PROTOCOL,
            generation_id=self.epoch,
            member_count=len(self.members),
            document=Document(partial(write_group, now, self.members.document)),
        )

    @property
    def state(self) -> GroupState:
        if not len(self.members):
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def see(self, catalog: Catalog, now_ms: int) -> None:
        """Take a newer catalog, and ACLs as they are now.

        A change of subscribed topics starts a new epoch, one for all.
        """
        is_new = self.subscriptions.is_new(catalog)
        if is_new:
            self.subscriptions.see(catalog)
            for subscription in self.members.subscriptions():  # none is compiled when restored
                self.subscriptions.admit(subscription.pattern)
        elif self.shows_all:
            return
        changed = self._shown.see(self.config.visible_to, now_ms, topics_changed=is_new)
        if is_new and not changed:
            fingerprint = self.subscriptions.fingerprint(self.members.subscriptions())
            changed = fingerprint != self._fingerprint
        if changed and len(self.members):
            self.bump()
        self.assign(now_ms)

    @property
    def shows_all(self) -> bool:
        """Whether all members have been shown what they may know of by ACLs as they are now."""
        return self._shown.is_complete(self.config.visible_to)

    def shown_to(self, member: Member, now_ms: int) -> Subscription:
        """Return what a member subscribes to, as its user may have it now."""
        return self._shown.to_one(member, self.config.visible_to, now_ms)

    def check_size(self) -> None:
        """Check that there is a place for one more member.

        Raises:
            Refused: GROUP_MAX_SIZE_REACHED.
        """
        max_size = self.config.consumer.max_size
        if len(self.members) >= max_size:
            message = f"The consumer group has reached its maximum capacity of {max_size} members."
            raise Refused(ErrorCode.group_max_size_reached, message)

    def check_room(self, member: Member, known_as: str | None) -> None:
        """Check that a member may say this of itself, whatever it said as `known_as`.

        Raises:
            Refused: GROUP_MAX_SIZE_REACHED.
        """
        if not self.members.has_room(member, self.members.get(known_as or "")):
            message = "The members of the group say too much of themselves."
            raise Refused(ErrorCode.group_max_size_reached, message)

    def admit(self, pattern: str) -> None:
        """Make a pattern known.

        Raises:
            Refused: it is not valid.
        """
        try:
            self.subscriptions.admit(pattern)
        except InvalidPattern as invalid:
            raise invalid_regex(pattern, invalid) from invalid

    def put(self, member: Member) -> None:
        """Add or change a member, to be saved."""
        self.members.put(member)
        self.changed = True

    def swap(self, old_member_id: str, member: Member) -> None:
        """Put a static member's new incarnation in the place of the old one."""
        self.members.remove(old_member_id)
        self.deadlines.forget(old_member_id)
        self.put(member)

    def remove(self, member_ids: Iterable[str]) -> None:
        """Take members out; what they held is free, and a new epoch begins."""
        for member_id in member_ids:
            self.members.remove(member_id)
            self.deadlines.forget(member_id)
        self.bump()

    def begin_at(self, epoch: int) -> None:
        """Count on from a classic group's generation; the members have what they shall have."""
        self.epoch = self.assignment_epoch = epoch
        self._fingerprint = self.subscriptions.fingerprint(self.members.subscriptions())

    def bump(self) -> None:
        """Begin a new group epoch."""
        self.epoch += 1
        self.changed = True

    def assign(self, now_ms: int) -> None:
        """Compute the target of the group epoch, unless it is known, or as soon as that may be.

        A restored group that has not seen a catalog yet keeps its old target until it has.
        """
        if self.epoch == self.assignment_epoch or self.subscriptions.catalog is None:
            return
        if now_ms < self._rests_until_ms and len(self.members):
            self.deadlines.set(THE_GROUP, Deadline.ASSIGNMENT, self._rests_until_ms)
            return
        self.deadlines.cancel(THE_GROUP, Deadline.ASSIGNMENT)
        in_use = self.members.subscriptions()
        sizes = self.subscriptions.sizes(in_use)
        self._set_targets(in_use, sizes)
        self._fingerprint = self.subscriptions.fingerprint(in_use)
        rest_us = REST_US_EACH * (sum(sizes.values()) + len(self.members))
        self._rests_until_ms = now_ms + rest_us // 1_000
        self.assignment_epoch = self.epoch
        self.changed = True

    def _set_targets(self, in_use: Collection[Subscription], sizes: TopicSizes) -> None:
        self.subscriptions.keep(in_use)
        members = [
            AssignorMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                topic_ids=self.subscriptions.topic_ids(member.subscription),
                target=member.target,
            )
            for member in self.members
        ]
        targets = ASSIGNORS[self.assignor](members, sizes)
        for member in list(self.members):
            target = targets[member.member_id]
            if target != member.target:
                self.members.put(replace(member, target=target))

    @property
    def assignor(self) -> str:
        """The assignor that most members ask for; the first one configured if none does."""
        offered = self.config.consumer.assignors
        votes = dict.fromkeys(offered, 0)
        for member in self.members:
            if member.server_assignor in votes:
                votes[member.server_assignor] += 1
        return max(offered, key=votes.__getitem__)  # the first of those with as many votes

    def step_to_target(
        self,
        member: Member,
        owned: frozenset[Partition] | None,
        *,
        subscription_changed: bool,
        now_ms: int,
    ) -> Member:
        """Lead a member that was heard of one step to its target; return it as it is then.

        Args:
            member: as it was put into the group just now.
            owned: what it says that it holds; None if it does not say.
            subscription_changed: since it was heard of last; that begins a new epoch.
            now_ms: its session begins anew.
        """
        if subscription_changed or self.epoch == 0:
            self.bump()
        self.assign(now_ms)
        member = self.members.get(member.member_id) or member  # with its target
        subscribed = self.subscriptions.topic_ids(member.subscription)
        before = member
        has_left = subscription_changed or self._holds_more_than(subscribed, member)
        if has_left:  # what it has left it gives up at once, if it is assigned later
            target = frozenset(p for p in member.target if p.topic_id in subscribed)
            before = replace(member, target=target)
        after = reconcile(
            before,
            target_epoch=self.assignment_epoch,
            owned=owned,
            owner_of=self.members.owner_of,
            dropped=(lambda topic_id: topic_id not in subscribed) if has_left else None,
        )
        if after is not member and after != member:
            self.put(after)
            self._watch_revocation(after, now_ms)
        self.extend_session(after, now_ms)
        return after

    def _holds_more_than(self, topic_ids: Set[UUID], member: Member) -> bool:
        """Whether it holds topics that its user has lost with another one's heartbeat.

        A target of the group epoch takes them from it anyhow, unless it gives up others just now.
        """
        is_behind = self.epoch > self.assignment_epoch
        if not is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
            return False
        return any(partition.topic_id not in topic_ids for partition in member.assigned)

    def _watch_revocation(self, member: Member, now_ms: int) -> None:
        """Classic members have join and sync deadlines instead."""
        if member.pending_revocation and member.classic is None:
            due_ms = now_ms + member.rebalance_timeout_ms
            self.deadlines.set(member.member_id, Deadline.REBALANCE, due_ms)
        else:
            self.deadlines.cancel(member.member_id, Deadline.REBALANCE)

    def extend_session(self, member: Member, now_ms: int) -> None:
        timeout_ms = self.config.consumer.session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self.deadlines.set(member.member_id, Deadline.SESSION, now_ms + timeout_ms)

    def effects(self, token: Token | None = None, answer: Answer | None = None) -> list[Effect]:
        """Return what an event comes to: save what changed, answer, set the timer."""
        effects: list[Effect] = []
        if self.changed:
            self.changed = False
            effects.append(Save(group=self.snapshot()))
        if answer is not None:
            effects.append(Reply(token=token, answer=answer))
        effects += self.deadlines.arm()
        return effects
