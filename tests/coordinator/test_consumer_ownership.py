"""No partition is ever held by two members, whatever gets lost; and everybody gets what is theirs.

Members obey the protocol, get answers late or never, crash, leave, come back; topics come, grow and
go; the coordinator fails at any moment and another one goes on with what was saved last. A member
counts until its session has ended at the coordinator.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from coordinator import consumer_core
from coordinator.consumer_core import ConsumerCore
from coordinator.snapshots import GroupSnapshot, GroupState, GroupType
from protocol.ids import Partition
from tests.coordinator.consumer_simulation import Cluster, Consumer, owners

SUBSCRIPTIONS = [(("t1",), None), (("t1", "t2"), None), ((), "t.*"), (("u1",), "t2"), ((), None)]
MAX_CONSUMERS = 5

Move = tuple[str, int]
"""What happens, and a number that says to whom or how."""


class World:
    """A cluster, its consumers, and what may happen to them."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.consumers: dict[str, Consumer] = {}
        self.numbers = count(1)
        self.checked: GroupSnapshot | None = None
        for name, size in (("t1", 4), ("t2", 3)):
            self.cluster.set_topic(name, UUID(int=next(self.numbers)), size)

    def play(self, moves: Sequence[Move]) -> None:
        for number in range(3):
            self.start(number)
        for what, number in moves:
            getattr(self, what)(number)
            self.check()
        self.settle()

    def alive(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers.values() if consumer.is_alive]

    def one(self, number: int) -> Consumer:
        alive = self.alive()
        return alive[number % len(alive)]

    def start(self, number: int) -> None:
        """A consumer joins; every third one is static."""
        instance = {2: "i1", 5: "i2"}.get(number % 6)
        is_there = any(instance and other.instance_id == instance for other in self.alive())
        if len(self.alive()) >= MAX_CONSUMERS or is_there:
            return
        names, pattern = SUBSCRIPTIONS[number % 3]
        member_id = f"m{next(self.numbers)}"
        self.consumers[member_id] = Consumer(member_id, instance, names, pattern)
        self.send(self.consumers[member_id])

    def send(self, consumer: Consumer, *, save_fails: bool = False) -> None:
        event = consumer.request(next(self.cluster.tokens), self.cluster.catalog)
        self.cluster.send(event, save_fails=save_fails)

    def heartbeat(self, number: int) -> None:
        if not self.one(number).waits:
            self.send(self.one(number))

    def heartbeat_and_fail(self, number: int) -> None:
        """The coordinator cannot save what it did."""
        if not self.one(number).waits:
            self.send(self.one(number), save_fails=True)

    def receive(self, number: int) -> None:
        consumer = self.one(number)
        answer = self.cluster.mail.pop(consumer.waits, None)
        if answer is not None:
            consumer.hear(answer)
        elif consumer.waits:
            consumer.lose()

    def exchange(self, number: int) -> None:
        self.receive(number)
        self.heartbeat(number)
        self.receive(number)

    def revoke(self, number: int) -> None:
        self.one(number).revoke()

    def lose(self, number: int) -> None:
        consumer = self.one(number)
        if consumer.waits:
            self.cluster.mail.pop(consumer.waits, None)
            consumer.lose()

    def subscribe(self, number: int) -> None:
        consumer = self.one(number // len(SUBSCRIPTIONS))
        consumer.names, consumer.pattern = SUBSCRIPTIONS[number % len(SUBSCRIPTIONS)]
        consumer.said_names = False

    def leave(self, number: int) -> None:
        """It gives everything up and says so; a static one says that it comes back."""
        consumer = self.one(number)
        if not consumer.waits and consumer.epoch > 0 and len(self.alive()) > 1:
            epoch = -2 if consumer.instance_id else -1
            event = consumer.leave(next(self.cluster.tokens), epoch, self.cluster.catalog)
            self.cluster.send(event)

    def crash(self, number: int) -> None:
        if len(self.alive()) > 1:
            self.one(number).is_alive = False

    def change_topic(self, number: int) -> None:
        name, size = [("t1", 6), ("t2", 0), ("t2", 2), ("u1", 3), ("u1", 0)][number % 5]
        known = self.cluster.topics.get(name)
        if known is None and size:
            self.cluster.set_topic(name, UUID(int=next(self.numbers)), size)
        elif known is not None and (size == 0 or size > known[1]):
            self.cluster.set_topic(name, known[0] if size else None, size)

    def see_topics(self, _: int) -> None:
        self.cluster.see_topics()

    def pass_time(self, number: int) -> None:
        self.cluster.pass_time([1, 1_000, 5_000, 21_000, 46_000][number % 5])

    def fail_over(self, _: int) -> None:
        self.cluster.fail_over()

    def check(self) -> None:
        known = self.cluster.known_members()
        holders = owners(c for c in self.consumers.values() if c.member_id in known)
        assert not {p: names for p, names in holders.items() if len(names) > 1}
        saved, config = self.cluster.saved, self.cluster.config
        if saved is None or saved is self.checked or saved.group_type is GroupType.CLASSIC:
            return
        self.checked = saved
        self.check_commits(holders)
        assert ConsumerCore.restore(saved, config, now_ms=0).snapshot() == saved

    def check_commits(self, holders: Mapping[Partition, Sequence[str]]) -> None:
        """Who has not heard of its epoch yet commits nothing that is another's by now."""
        for member in self.cluster.described().members:
            consumer = self.consumers[member.member_id]
            if consumer.epoch == member.member_epoch:
                continue
            for partition, (holder,) in holders.items():
                code = self.cluster.group.check_commit(
                    member_id=consumer.member_id,
                    instance_id=None,
                    generation_id=consumer.epoch,
                    partitions={partition},
                    now_ms=self.cluster.now_ms,
                )
                assert holder == consumer.member_id or code is not ErrorCode.none

    def settle(self) -> None:
        """When nothing happens any more, everything is held by exactly one."""
        for consumer in self.alive():
            if consumer.waits and consumer.waits not in self.cluster.mail:
                consumer.lose()
        for _ in range(16):
            self.cluster.pass_time(5_000)
            self.cluster.see_topics()
            for number, consumer in enumerate(self.alive()):
                self.receive(number)
                consumer.revoke()
                self.heartbeat(number)
                self.check()
        assert self.cluster.group.state is GroupState.STABLE
        assert set(owners(self.alive())) == self.subscribed()
        for member in self.cluster.described().members:
            held = self.consumers[member.member_id].held
            assert held == set(member.assignment) == set(member.target_assignment)

    def subscribed(self) -> set[Partition]:
        topics = self.cluster.topics
        wanted: set[str] = set()
        for consumer in self.alive():
            wanted.update(consumer.names)
            wanted.update({"t.*": ("t1", "t2"), "t2": ("t2",)}.get(consumer.pattern or "", ()))
        return {
            Partition(topics[n][0], i) for n in wanted & set(topics) for i in range(topics[n][1])
        }


USUAL = ["heartbeat", "receive", "exchange", "exchange", "revoke"]
UNUSUAL = ["heartbeat_and_fail", "lose", "subscribe", "leave", "crash", "start", "start"]
AROUND = ["change_topic", "see_topics", "pass_time", "fail_over"]

moves = st.lists(
    st.tuples(st.sampled_from(USUAL * 4 + UNUSUAL + AROUND), st.integers(0, 29)),
    min_size=20,
    max_size=100,
)


@given(moves=moves)
@settings(max_examples=50, deadline=None)
def test_no_partition_has_two_holders_and_all_have_one_in_the_end(moves: list[Move]) -> None:
    World().play(moves)


@given(moves=moves)
@settings(max_examples=50, deadline=None)
def test_so_it_is_in_a_group_that_rests_between_its_assignments(moves: list[Move]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(consumer_core, "REST_US_EACH", 300_000)
        World().play(moves)
