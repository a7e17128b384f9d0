"""Members that obey the consumer protocol, a coordinator that may fail, and answers that may not
arrive: what tests/coordinator/test_consumer_ownership.py plays with.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from kio.schema.errors import ErrorCode

from coordinator.answers import Answer, ConsumerHeartbeatAnswer
from coordinator.catalog import Catalog, CatalogTopic
from coordinator.config import ClassicConfig, ConsumerConfig, GroupConfig
from coordinator.descriptions import ConsumerDescription
from coordinator.effects import ArmTimer, Effect, Expired, Reply, Save
from coordinator.events import (
    ClassicEvent,
    ConsumerEvent,
    ConsumerHeartbeat,
    TimerFired,
    TopicsChanged,
)
from coordinator.group import Group
from coordinator.snapshots import GroupSnapshot
from protocol.ids import Partition

SESSION_MS = 45_000
REBALANCE_MS = 20_000
GROUP_ID = "orders"


def catalog_of(version: int, topics: dict[str, tuple[UUID, int]]) -> Catalog:
    by_name = {
        name: CatalogTopic(topic_id=topic_id, name=name, partition_count=size)
        for name, (topic_id, size) in topics.items()
    }
    by_id = {topic.topic_id: topic for topic in by_name.values()}
    return Catalog(version=version, by_name=by_name, by_id=by_id)


@dataclass(slots=True)
class Consumer:
    """A client. `held` is all that it may be reading from at this moment.

    Attributes:
        told: what it may hold by its last answer; it gives up the rest when it gets round to it.
        waits: token of its request that is under way; it sends one at a time.
        unsure: an answer did not come, so the next request says everything.
    """

    member_id: str
    instance_id: str | None
    names: tuple[str, ...]
    pattern: str | None
    epoch: int = 0
    held: set[Partition] = field(default_factory=set)
    told: set[Partition] = field(default_factory=set)
    waits: object = None
    unsure: bool = False
    said_names: bool = False
    is_alive: bool = True

    def request(self, token: object, catalog: Catalog) -> ConsumerHeartbeat:
        self.waits = token
        full = self.epoch == 0 or self.unsure
        subscribes = full or not self.said_names
        self.said_names = True
        if self.epoch == 0:
            self.held.clear()
            self.told.clear()
        return ConsumerHeartbeat(
            token=token,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rack_id=None,
            client_id="c",
            client_host="/10.0.0.1",
            principal="ANONYMOUS",
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            subscribed_topic_names=self.names if subscribes else None,
            subscribed_topic_regex=(self.pattern or "") if subscribes else None,
            server_assignor=None,
            owned_partitions=sorted(self.held),
            catalog=catalog,
        )

    def leave(self, token: object, epoch: int, catalog: Catalog) -> ConsumerHeartbeat:
        self.held.clear()
        self.is_alive = False
        return ConsumerHeartbeat(
            token=token,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            rack_id=None,
            client_id="c",
            client_host="/10.0.0.1",
            principal="ANONYMOUS",
            rebalance_timeout_ms=-1,
            subscribed_topic_names=None,
            subscribed_topic_regex=None,
            server_assignor=None,
            owned_partitions=None,
            catalog=catalog,
        )

    def hear(self, answer: Answer) -> None:
        assert isinstance(answer, ConsumerHeartbeatAnswer)
        self.waits, self.unsure = None, False
        if answer.error_code is not ErrorCode.none:
            assert answer.error_code in {
                ErrorCode.unknown_member_id,
                ErrorCode.fenced_member_epoch,
                ErrorCode.fenced_instance_id,
                ErrorCode.unreleased_instance_id,
                ErrorCode.group_id_not_found,
            }, answer
            self.epoch = 0
            self.held.clear()
            self.told.clear()
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.told = set(answer.assignment)
            self.held |= self.told

    def lose(self) -> None:
        self.waits, self.unsure = None, True

    def revoke(self) -> None:
        self.held &= self.told


class Cluster:
    """The coordinator of one group, what it saved, the topics and the time."""

    def __init__(self) -> None:
        self.config = GroupConfig(
            classic=ClassicConfig(initial_rebalance_delay_ms=0),
            consumer=ConsumerConfig(session_timeout_ms=SESSION_MS, max_size=100),
            new_uuid=map(str, count()).__next__,
        )
        self.now_ms = 0
        self.topics: dict[str, tuple[UUID, int]] = {}
        self.version = 0
        self.saved: GroupSnapshot | None = None
        self.deadline_ms: int | None = None
        self.mail: dict[object, Answer] = {}
        self.answered: set[object] = set()
        self.tokens = count(1)
        self.group = Group(GROUP_ID, self.config)
        self.run(self.group.start(now_ms=0), save_fails=False)

    @property
    def catalog(self) -> Catalog:
        return catalog_of(self.version, self.topics)

    def set_topic(self, name: str, topic_id: UUID | None, size: int) -> None:
        self.version += 1
        if topic_id is None:
            self.topics.pop(name, None)
        else:
            self.topics[name] = (topic_id, size)

    def send(self, event: ClassicEvent | ConsumerEvent, *, save_fails: bool = False) -> None:
        self.run(self.group.handle(event, now_ms=self.now_ms), save_fails=save_fails)

    def run(self, effects: Sequence[Effect], *, save_fails: bool) -> None:
        """Run effects; answers wait in `mail`. After a failed save there is another coordinator."""
        for effect in effects:
            match effect:
                case Save(group=group):
                    if save_fails:
                        self.fail_over()
                        return
                    self.saved = group
                case Reply(token=token, answer=answer):
                    assert token not in self.answered, "answered twice"
                    self.answered.add(token)
                    self.mail[token] = answer
                case ArmTimer(deadline_ms=deadline_ms):
                    self.deadline_ms = deadline_ms
                case Expired(member_id=member_id):
                    assert member_id not in {one.member_id for one in self.group.describe().members}

    def fail_over(self) -> None:
        """Go on with what was saved, at another coordinator, which has no timer yet."""
        self.deadline_ms = None
        if self.saved is None:
            self.group = Group(GROUP_ID, self.config)
        else:
            self.group = Group.restore(self.saved, self.config, now_ms=self.now_ms)
        self.run(self.group.start(now_ms=self.now_ms), save_fails=False)

    def see_topics(self) -> None:
        if self.group.needs_catalog:
            self.send(TopicsChanged(catalog=self.catalog))

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        if self.deadline_ms is not None and self.deadline_ms <= self.now_ms:
            self.deadline_ms = None
            self.send(TimerFired())

    def known_members(self) -> set[str]:
        return {member.member_id for member in self.group.describe().members}

    def described(self) -> ConsumerDescription:
        description = self.group.describe()
        assert isinstance(description, ConsumerDescription)
        return description


def owners(consumers: Iterable[Consumer]) -> dict[Partition, list[str]]:
    found: dict[Partition, list[str]] = {}
    for consumer in consumers:
        for partition in consumer.held:
            found.setdefault(partition, []).append(consumer.member_id)
    return found
