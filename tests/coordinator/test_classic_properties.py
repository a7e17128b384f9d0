"""What is true of a classic group in any sequence of events; classic_world.py checks as it runs."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from kio.schema.errors import ErrorCode

from coordinator.events import Heartbeat, Join, Leave, LeavingMember, Protocol, Sync
from coordinator.snapshots import GroupState
from tests.coordinator.classic_script import subscription
from tests.coordinator.classic_world import Client, Runner

CLIENTS = st.integers(0, 4)
CRASHES = st.one_of(st.none(), st.none(), st.none(), st.integers(0, 3))
PROTOCOLS = {
    name: Protocol(name=name.split()[0], metadata=subscription(name.split()[1]))
    for name in ("range t1", "range t2", "sticky t1", "roundrobin t1")
}
CHOICES = st.lists(st.sampled_from(sorted(PROTOCOLS)), min_size=1, max_size=3)


class ClassicGroupMachine(RuleBasedStateMachine):
    """Three dynamic and two static clients, right and wrong requests, time, and dying brokers."""

    @initialize(delay_ms=st.sampled_from([0, 500]), max_size=st.integers(2, 6))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.runner = Runner(initial_rebalance_delay_ms=delay_ms, max_size=max_size)
        self.clients = [
            Client(name=name, instance_id=instance_id)
            for name, instance_id in (("a", None), ("b", None), ("c", None), ("d", "i"), ("e", "j"))
        ]

    @rule(
        number=CLIENTS,
        names=st.one_of(st.just(["range t1"]), CHOICES),
        version=st.sampled_from([3, 8, 9]),
        rebalance_timeout_ms=st.sampled_from([0, 1_500, 4_000]),
        restarts=st.booleans(),
        crash_at=CRASHES,
    )
    def join(
        self,
        number: int,
        names: list[str],
        version: int,
        rebalance_timeout_ms: int,
        restarts: bool,
        crash_at: int | None,
    ) -> None:
        client = self.clients[number]
        event = Join(
            token=None,
            member_id="" if restarts else client.member_id,
            instance_id=client.instance_id,
            client_id=client.name,
            client_host="/127.0.0.1",
            session_timeout_ms=2_000,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocol_type="consumer",
            protocols=[PROTOCOLS[name] for name in names],
            needs_member_id=version >= 4,
            skips_assignment=version >= 9,
        )
        self.runner.ask(client, event, crash_at)

    @rule(number=CLIENTS, behind=st.sampled_from([0, 0, 0, 1]), crash_at=CRASHES)
    def sync(self, number: int, behind: int, crash_at: int | None) -> None:
        client = self.clients[number]
        event = Sync(
            token=None,
            generation_id=client.generation_id - behind,
            member_id=client.member_id,
            instance_id=client.instance_id,
            protocol_type="consumer",
            protocol_name=None,
            assignments=client.assignments,
        )
        self.runner.ask(client, event, crash_at)

    @rule(number=CLIENTS, behind=st.sampled_from([0, 0, 1]))
    def heartbeat(self, number: int, behind: int) -> None:
        client = self.clients[number]
        event = Heartbeat(
            token=None,
            generation_id=client.generation_id - behind,
            member_id=client.member_id,
            instance_id=client.instance_id,
        )
        self.runner.ask(client, event)

    @rule(numbers=st.lists(CLIENTS, min_size=3, max_size=15), crash_at=CRASHES)
    def behave(self, numbers: list[int], crash_at: int | None) -> None:
        """Let clients do what they should do next; one of the coordinators may die meanwhile."""
        for turn, number in enumerate(numbers):
            client = self.clients[number]
            if self.runner.waits(client):
                continue
            if client.wants == "join":
                self.join(number, ["range t1"], 9, 4_000, False, crash_at if turn == 2 else None)
            elif client.wants == "sync":
                self.sync(number, 0, crash_at if turn == 2 else None)
            else:
                self.heartbeat(number, 0)

    @rule(numbers=st.lists(CLIENTS, min_size=1, max_size=3), crash_at=CRASHES)
    def leave(self, numbers: list[int], crash_at: int | None) -> None:
        members = [
            LeavingMember(member_id=client.member_id, instance_id=client.instance_id)
            for client in (self.clients[number] for number in numbers)
        ]
        self.runner.ask(self.clients[numbers[0]], Leave(token=None, members=members), crash_at)

    @rule(by_ms=st.sampled_from([1, 400, 600, 1_600, 2_100, 5_000]))
    def advance(self, by_ms: int) -> None:
        self.runner.advance(by_ms)

    @rule(by_ms=st.sampled_from([0, 1_000, 10_000]))
    def fail_over(self, by_ms: int) -> None:
        self.runner.deadline_ms = None
        self.runner.advance(by_ms)
        self.runner.restore()

    @precondition(lambda self: self.runner.group.state is GroupState.EMPTY)
    @rule()
    def commit_of_a_consumer_that_assigns_itself(self) -> None:
        assert self._commit("", None, -1) is ErrorCode.none

    @invariant()
    def only_current_members_commit(self) -> None:
        for client in self.clients:
            for member_id, generation_id in client.past:
                error_code = self._commit(member_id, client.instance_id, generation_id)
                if generation_id < self.runner.group.generation_id:
                    assert error_code is not ErrorCode.none
                if error_code is ErrorCode.none:
                    assert member_id in self.runner.group.members

    def teardown(self) -> None:
        """Left alone, every group becomes Empty, and no request stays without an answer."""
        if not hasattr(self, "runner"):
            return
        self.runner.advance(1_000_000)
        assert self.runner.deadline_ms is None
        assert self.runner.group.state is GroupState.EMPTY
        assert not self.runner.asked

    def _commit(self, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
        return self.runner.group.check_commit(
            member_id=member_id,
            instance_id=instance_id,
            generation_id=generation_id,
            now_ms=self.runner.now_ms,
        )


ClassicGroupMachine.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestClassicGroup = ClassicGroupMachine.TestCase
