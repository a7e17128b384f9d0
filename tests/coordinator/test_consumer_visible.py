"""Where ACLs decide, a pattern gives a member no topic that it may not know of."""

from collections.abc import Collection
from uuid import UUID

from coordinator.answers import ConsumerHeartbeatAnswer
from coordinator.effects import Effect, Reply, Save
from coordinator.events import ConsumerHeartbeat, TopicsChanged
from coordinator.group import Group
from coordinator.snapshots import GroupSnapshot
from coordinator.subscriptions import Subscription, Subscriptions
from protocol.ids import Partition
from tests.coordinator.classic_world import Runner
from tests.coordinator.consumer_simulation import catalog_of

ONE, TWO, THREE = UUID(int=1), UUID(int=2), UUID(int=3)
CATALOG = catalog_of(1, {"t1": (ONE, 1), "t2": (TWO, 1)})
LATER = catalog_of(2, {"t1": (ONE, 1), "t2": (TWO, 1), "t3": (THREE, 1)})


class Seen:
    """Topics that somebody may know of; counts who asks for them."""

    def __init__(self, names: Collection[str]) -> None:
        self.edition = frozenset(names)
        self.asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return name in self.edition


class World:
    """A group and what was last saved of it."""

    def __init__(self) -> None:
        self.config = Runner(initial_rebalance_delay_ms=0, max_size=10).config
        self.group = Group("g", self.config)
        self.group.start(now_ms=0)
        self.saved: list[GroupSnapshot] = []
        self.catalog = CATALOG

    def beat(
        self, member_id: str, epoch: int, visible: Collection[str] | None, *held: Partition
    ) -> ConsumerHeartbeatAnswer:
        event = ConsumerHeartbeat(
            token=0,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=None,
            subscribed_topic_regex=None if epoch else "t.*",
            server_assignor=None,
            owned_partitions=held,
            catalog=self.catalog,
            visible_topics=None if visible is None else Seen(visible),
        )
        return self._answered(self.group.handle(event, now_ms=0))

    def _answered(self, effects: list[Effect]) -> ConsumerHeartbeatAnswer:
        self.saved += [effect.group for effect in effects if isinstance(effect, Save)]
        (answer,) = [effect.answer for effect in effects if isinstance(effect, Reply)]
        assert isinstance(answer, ConsumerHeartbeatAnswer)
        return answer

    def move(self) -> None:
        """Go on as another broker does that takes the group over."""
        self.group = Group.restore(self.saved[-1], self.config, now_ms=0)
        self.group.start(now_ms=0)
        assert self.group.handle(TopicsChanged(catalog=self.catalog), now_ms=0) == []


def held(answer: ConsumerHeartbeatAnswer) -> list[UUID]:
    return [one.topic_id for one in answer.assignment or ()]


def test_each_member_gets_what_it_may_see() -> None:
    world = World()
    assert held(world.beat("a", 0, {"t1"})) == [ONE]
    assert held(world.beat("b", 0, {"t2"})) == [TWO]
    assert held(world.beat("c", 0, frozenset())) == []


def test_a_new_topic_waits_for_a_heartbeat_of_one_who_may_see_it() -> None:
    # Given a member that may see all
    world = World()
    joined = world.beat("a", 0, {"t1", "t2", "t3"})
    assert held(joined) == [ONE, TWO]

    # When a topic appears, then nobody has asked whether it may see that
    world.catalog = LATER
    assert world.group.handle(TopicsChanged(catalog=LATER), now_ms=0) == []

    # When its next heartbeat comes, then it may
    holds = joined.assignment or ()
    answer = world.beat("a", joined.member_epoch, {"t1", "t2", "t3"}, *holds)
    assert held(answer) == [ONE, TWO, THREE]


def test_what_may_not_be_seen_any_more_is_taken_away() -> None:
    world = World()
    joined = world.beat("a", 0, {"t1", "t2"})
    answer = world.beat("a", joined.member_epoch, {"t2"}, *(joined.assignment or ()))
    assert held(answer) == [TWO]


def test_another_coordinator_knows_who_may_see_what() -> None:
    # Given members of which some may see the same
    world = World()
    world.beat("a", 0, {"t1"})
    world.beat("b", 0, {"t1"})
    joined = world.beat("c", 0, {"t2"})

    # When the group moves, then nothing changes by that
    world.move()
    assert held(world.beat("c", joined.member_epoch, {"t2"}, *(joined.assignment or ()))) == []
    assert world.saved[-1].document.text.count('"t1"') == 1

    # When it moves to a broker without ACLs, then everybody may see all
    world.move()
    answer = world.beat("c", joined.member_epoch, None, *(joined.assignment or ()))
    assert answer.member_epoch > joined.member_epoch


def test_nobody_asks_again_what_cannot_have_changed() -> None:
    # Given a pattern that two may see the same of
    subscriptions, wanted = Subscriptions(), Subscription(pattern="t.*")
    subscriptions.see(CATALOG)
    subscriptions.admit("t.*")
    first, second = Seen({"t1"}), Seen({"t1", "elsewhere"})
    shown = subscriptions.show(wanted, first)
    also_shown = subscriptions.show(wanted, second)
    assert first.asked == second.asked == 2

    # Then they share what they see, and their next heartbeats ask nobody
    assert shown.visible is also_shown.visible
    assert subscriptions.show(shown, first) is shown
    assert first.asked == 2

    # When there are other topics, or others may be seen, then they do
    assert subscriptions.show(shown, Seen({"t2"})).visible == frozenset({"t2"})
    subscriptions.see(LATER)
    assert subscriptions.show(shown, first) is shown
    assert first.asked == 5

    # When the pattern is not in use any more, then nothing is remembered of it
    subscriptions.keep([])
    subscriptions.admit("t.*")
    assert subscriptions.show(shown, first) is shown
    assert first.asked == 8
