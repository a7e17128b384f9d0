"""A group of users who may not know of all topics: what test_consumer_visible.py plays with."""

import json
from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

from coordinator.answers import ConsumerHeartbeatAnswer
from coordinator.catalog import Catalog
from coordinator.effects import Effect, Reply, Save
from coordinator.events import ConsumerHeartbeat, TopicsChanged
from coordinator.group import Group
from coordinator.snapshots import Document, GroupSnapshot
from protocol.ids import Partition
from tests.coordinator.classic_world import Runner


class Seen:
    """Topics that somebody may know of; counts who asks for them."""

    def __init__(self, names: Collection[str]) -> None:
        self.edition = frozenset(names)
        self.asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return name in self.edition


class Rights:
    """What each user may know of."""

    def __init__(self) -> None:
        self.of: dict[str, Collection[str]] = {}
        self._all: list[Seen] = []

    @property
    def asked(self) -> int:
        """How many names anybody was asked about."""
        return sum(seen.asked for seen in self._all)

    @property
    def edition(self) -> frozenset[tuple[str, frozenset[str]]]:
        return frozenset((user, frozenset(names)) for user, names in self.of.items())

    def __call__(self, principal: str, client_host: str) -> Seen:
        self._all.append(Seen(self.of[principal]))
        return self._all[-1]


class World:
    """A group, what was last saved of it, and what each user may know of."""

    def __init__(self, catalog: Catalog) -> None:
        self.visibility = Rights()
        limits = Runner(initial_rebalance_delay_ms=0, max_size=10).config
        self.config = replace(limits, visible_to=self.visibility)
        self.group = Group("g", self.config)
        self.group.start(now_ms=0)
        self.saved: list[GroupSnapshot] = []
        self.catalog = catalog
        self.now_ms = 0
        self.restates = False  # with each heartbeat: what members subscribe to

    @property
    def rights(self) -> dict[str, Collection[str]]:
        """What each user may know of."""
        return self.visibility.of

    @rights.setter
    def rights(self, rights: dict[str, Collection[str]]) -> None:
        self.visibility.of = rights

    def beat(
        self, member_id: str, epoch: int, visible: Collection[str], *held: Partition
    ) -> ConsumerHeartbeatAnswer:
        """Heartbeat of a member whose user has its name, and may know of these from now on."""
        self.rights[member_id] = visible
        return self.beat_of(member_id, member_id, epoch, *held)

    def beat_of(
        self, principal: str, member_id: str, epoch: int, *held: Partition
    ) -> ConsumerHeartbeatAnswer:
        event = ConsumerHeartbeat(
            token=0,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            client_id="c",
            client_host="/h",
            principal=principal,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=None,
            subscribed_topic_regex="t.*" if self.restates or not epoch else None,
            server_assignor=None,
            owned_partitions=held,
            catalog=self.catalog,
        )
        return self._answered(self.group.handle(event, now_ms=self.now_ms))

    def _answered(self, effects: list[Effect]) -> ConsumerHeartbeatAnswer:
        self.saved += [effect.group for effect in effects if isinstance(effect, Save)]
        (answer,) = [effect.answer for effect in effects if isinstance(effect, Reply)]
        assert isinstance(answer, ConsumerHeartbeatAnswer)
        return answer

    def move(self) -> None:
        """Go on as another broker does that takes the group over."""
        self.group = Group.restore(self.saved[-1], self.config, now_ms=self.now_ms)
        self.group.start(now_ms=self.now_ms)
        self.see(self.catalog)

    def forget_users(self) -> None:
        """Save the group as older versions did, which wrote down no users."""
        document = json.loads(self.saved[-1].document.text)
        for member in document["members"]:
            del member["principal"]
        text = json.dumps(document)
        self.saved.append(replace(self.saved[-1], document=Document(lambda: text)))

    def see(self, catalog: Catalog) -> None:
        """Let the group hear of topics."""
        self.catalog = catalog
        effects = self.group.handle(TopicsChanged(catalog=catalog), now_ms=self.now_ms)
        self.saved += [effect.group for effect in effects if isinstance(effect, Save)]

    @property
    def epoch(self) -> int:
        return self.saved[-1].generation_id


class Members:
    """Members that take what they are given, and give up what they shall."""

    def __init__(self, world: World, **principals: str) -> None:
        self.world = world
        self.principals: dict[str, str] = {}
        self.epochs: dict[str, int] = {}
        self.holds: dict[str, set[Partition]] = {}
        for name, principal in principals.items():
            self.join(name, principal)

    def join(self, name: str, principal: str) -> None:
        """Add a member, which joins with its first heartbeat."""
        self.principals[name] = principal
        self.epochs[name] = 0
        self.holds[name] = set()

    def beat(self, rounds: int = 4) -> None:
        """Let all heartbeat, one after the other."""
        for _ in range(rounds):
            for name in self.principals:
                self.beat_one(name)

    def beat_one(self, name: str) -> None:
        holds = sorted(self.holds[name])
        answer = self.world.beat_of(self.principals[name], name, self.epochs[name], *holds)
        self.epochs[name] = answer.member_epoch
        if answer.assignment is not None:
            self.holds[name] = set(answer.assignment)

    def topics(self) -> dict[str, set[UUID]]:
        return {name: {one.topic_id for one in holds} for name, holds in self.holds.items()}
