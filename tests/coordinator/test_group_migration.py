"""Classic and new consumers in one group that changes its type under them, and back.

No partition is held by two members, whichever protocols they speak, and in the end everybody holds
what is theirs. Answers get lost, members crash and leave, coordinators fail.
"""

from collections.abc import Sequence
from itertools import count
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.snapshots import GroupState, GroupType
from protocol.ids import Partition
from tests.coordinator.classic_consumer import ClassicConsumer
from tests.coordinator.consumer_simulation import Cluster, Consumer

TOPICS = ("t1", "t2")
MAX_CONSUMERS = 4

Move = tuple[str, int]


class World:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.consumers: list[Consumer | ClassicConsumer] = []
        self.numbers = count(1)
        for name, size in zip(TOPICS, (4, 3), strict=True):
            self.cluster.set_topic(name, UUID(int=next(self.numbers)), size)

    def play(self, moves: Sequence[Move]) -> None:
        self.start_classic(0)
        self.start_classic(1)
        for what, number in moves:
            getattr(self, what)(number)
            self.check()
        self.settle()

    def is_consumer_group(self) -> bool:
        return self.cluster.group.group_type is GroupType.CONSUMER

    def alive(self) -> list[Consumer | ClassicConsumer]:
        return [consumer for consumer in self.consumers if consumer.is_alive]

    def one(self, number: int) -> Consumer | ClassicConsumer:
        alive = self.alive()
        return alive[number % len(alive)]

    def start(self, _: int) -> None:
        if len(self.alive()) < MAX_CONSUMERS:
            self.consumers.append(Consumer(f"m{next(self.numbers)}", None, TOPICS, None))

    def start_classic(self, number: int) -> None:
        if len(self.alive()) < MAX_CONSUMERS:
            is_eager = number % 2 == 1
            self.consumers.append(ClassicConsumer(TOPICS, is_eager, self.cluster.catalog))

    def heartbeat(self, number: int, *, save_fails: bool = False) -> None:
        consumer = self.one(number)
        if consumer.waits is None:
            event = consumer.request(next(self.cluster.tokens), self.cluster.catalog)
            self.cluster.send(event, save_fails=save_fails)

    def heartbeat_and_fail(self, number: int) -> None:
        self.heartbeat(number, save_fails=True)

    def receive(self, number: int) -> None:
        consumer = self.one(number)
        answer = self.cluster.mail.pop(consumer.waits, None)
        if answer is not None:
            consumer.hear(answer)

    def exchange(self, number: int) -> None:
        self.receive(number)
        self.heartbeat(number)
        self.receive(number)

    def everybody(self, number: int) -> None:
        """Everybody goes a step or two, as they do most of the time."""
        for place in range(len(self.alive())):
            self.exchange(place)
            if number % 2:
                self.revoke(place)

    def revoke(self, number: int) -> None:
        self.one(number).revoke()

    def lose(self, number: int) -> None:
        consumer = self.one(number)
        if consumer.waits is not None:
            self.cluster.mail.pop(consumer.waits, None)
            consumer.lose()

    def leave(self, number: int) -> None:
        consumer = self.one(number)
        if consumer.waits is None and consumer.member_id and len(self.alive()) > 1:
            self.cluster.send(consumer.leave(next(self.cluster.tokens), -1, self.cluster.catalog))

    def crash(self, number: int) -> None:
        if len(self.alive()) > 1:
            self.one(number).is_alive = False

    def pass_time(self, number: int) -> None:
        self.cluster.pass_time([1, 1_000, 5_000, 21_000, 46_000][number % 5])

    def fail_over(self, _: int) -> None:
        self.cluster.fail_over()
        self.cluster.see_topics()

    def check(self) -> None:
        known = self.cluster.known_members()
        holders: dict[Partition, list[str]] = {}
        for consumer in self.consumers:
            if consumer.member_id in known:
                for partition in consumer.held:
                    holders.setdefault(partition, []).append(consumer.member_id)
        assert not {p: names for p, names in holders.items() if len(names) > 1}

    def settle(self) -> None:
        for round_number in range(60):
            self.cluster.pass_time(2_500)
            self.cluster.see_topics()
            for number, consumer in enumerate(self.alive()):
                self.receive(number)
                if round_number % 20 == 0 and consumer.waits is not None:
                    consumer.lose()  # its coordinator failed, or its first request was never sent
                self.heartbeat(number)
                self.receive(number)
                consumer.revoke()
                self.check()
        assert self.cluster.group.state is GroupState.STABLE
        held = sorted(p for consumer in self.alive() for p in consumer.held)
        assert held == sorted(
            Partition(topic_id, index)
            for topic_id, size in self.cluster.topics.values()
            for index in range(size)
        )


USUAL = ["heartbeat", "receive", "exchange", "everybody", "everybody", "revoke"]
UNUSUAL = ["start", "start_classic", "leave", "crash", "lose", "pass_time", "fail_over"]

moves = st.lists(
    st.tuples(st.sampled_from(USUAL * 3 + UNUSUAL + ["heartbeat_and_fail"]), st.integers(0, 29)),
    min_size=20,
    max_size=80,
)


@given(moves=moves)
@settings(max_examples=80, deadline=None)
def test_members_of_both_protocols_share_a_group(moves: list[Move]) -> None:
    World().play(moves)


@pytest.mark.parametrize("is_eager", [False, True])
@pytest.mark.parametrize("goes", ["leave", "crash"])
def test_a_group_that_goes_back_while_its_coordinator_fails_reads_everything(
    goes: str, *, is_eager: bool
) -> None:
    # Given two classic members and one other that have all reached the same epoch
    world = World()
    for _ in range(2):
        world.start_classic(int(is_eager))
    world.start(0)
    world.settle()
    assert world.is_consumer_group()
    assert all(consumer.held for consumer in world.alive())

    # When the other one goes, and the coordinator fails before anybody has joined again
    getattr(world, goes)(2)
    while world.is_consumer_group():
        for number in range(2):
            world.exchange(number)
        world.cluster.pass_time(20_000)
    assert world.cluster.group.state is GroupState.PREPARING_REBALANCE
    world.fail_over(0)

    # Then those who are left read what it has left, too
    world.settle()
    assert not world.is_consumer_group()
