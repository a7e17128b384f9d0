"""One run of clients against a cluster: members in processes of their own, the rest in threads."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final
from urllib.request import urlopen

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.crash.cluster_faults import bug_lines
from tests.crash.cluster_history import read_history
from tests.crash.cluster_ledger import (
    PARTITIONS,
    PLACES,
    PRODUCERS,
    TOPICS,
    ClusterLedger,
    GroupAtEnd,
    place_of,
)
from tests.crash.cluster_load import Producing, Sampling
from tests.crash.cluster_member import MemberSettings
from tests.crash.cluster_prefetched import set_aside_prefetched
from tests.crash.ledger import EndOffset, Ledger, Position
from tests.crash.readers import Readers
from tests.support.three_brokers import Trio

ROOT: Final = Path(__file__).parents[2]
GROUPS: Final = ("classic", "consumer")  # each named for its protocol
MEMBERS: Final = 3
WARM_S: Final = 120.0
SETTLE_S: Final = 120.0
LEAVE_S: Final = 30.0
CALL_S: Final = 10.0
GLANCE_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Member:
    """A member's process, and where it writes what it does."""

    settings: MemberSettings
    page: Path
    process: "subprocess.Popen[bytes]"

    @classmethod
    def start(cls, settings: MemberSettings, home: Path) -> "Member":
        page = home / f"{settings.name}.jsonl"
        with (home / f"{settings.name}.log").open("w") as errors:
            process = subprocess.Popen(
                (sys.executable, "-m", "tests.crash.cluster_member", settings.to_json(), str(page)),
                stdin=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
            )
        return cls(settings, page, process)

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


@contextmanager
def running_members(bootstrap: str, home: Path, assignor: str) -> Iterator[list[Member]]:
    """Start three members of a group of each protocol; none runs after the block."""
    home.mkdir()
    with ExitStack() as stack:
        started = []
        for protocol, wanted in zip(GROUPS, (assignor, "uniform"), strict=True):
            for number in range(MEMBERS):
                settings = MemberSettings(
                    name=f"{protocol}-{number}",
                    bootstrap=bootstrap,
                    group=protocol,
                    protocol=protocol,
                    assignor=wanted,
                )
                started.append(Member.start(settings, home))
                stack.callback(started[-1].end)
        yield started


@dataclass(frozen=True, slots=True)
class Run:
    """One run: brokers, members and what is written down."""

    trio: Trio
    members: list[Member]
    ledger: ClusterLedger = field(default_factory=lambda: ClusterLedger(groups=GROUPS))

    @property
    def _sampling(self) -> Sampling:
        return Sampling(self.ledger)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Produce and look for the length of a block; all is acknowledged at its end."""
        sending_ends, looking_ends = Event(), Event()
        producing = Producing(self.trio.bootstrap, self.ledger)
        with ThreadPoolExecutor() as threads:
            senders = [
                threads.submit(producing.send, number, sending_ends) for number in range(PRODUCERS)
            ]
            lookers = [
                threads.submit(self._sampling.follow, bootstrap, looking_ends)
                for bootstrap in self.trio.bootstraps
            ]
            try:
                yield
            finally:
                sending_ends.set()
                looking_ends.set()
            for one in (*senders, *lookers):
                one.result()

    @property
    def pids(self) -> dict[str, list[int]]:
        """The members' processes, by group."""
        return {
            group: [one.process.pid for one in self.members if one.settings.group == group]
            for group in GROUPS
        }

    def await_commits(self) -> None:
        """Return when both groups have committed something in every partition."""
        deadline = time.monotonic() + WARM_S
        while any(len(self._committed(group)) < PLACES for group in self.ledger.groups):
            assert time.monotonic() < deadline, f"no commits in {WARM_S} s"
            time.sleep(GLANCE_S)

    def settle(self) -> None:
        """Wait until both groups are stable and have committed all; or not, as checks will say."""
        ends = self.ledger.log.acknowledged_ends()
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            for bootstrap in self.trio.bootstraps:
                self._sampling.ask(bootstrap)
            for group in self.ledger.groups:
                self.ledger.at_the_end[group] = _describe(self.trio.bootstrap, group)
            stable = all(one.state == "STABLE" for one in self.ledger.at_the_end.values())
            if stable and all(self._committed(group) == ends for group in self.ledger.groups):
                break
            time.sleep(GLANCE_S)
        self.ledger.settled_s = time.monotonic()

    def _committed(self, group: str) -> dict[int, int]:
        return self._sampling.committed(group)

    def collect(self) -> None:
        """Have members leave, take their ledgers in, and read the whole log with a new client."""
        for member in self.members:
            member.leave()
        for member in self.members:
            name = member.settings.name
            try:
                if (code := member.process.wait(LEAVE_S)) != 0:
                    self.ledger.log.complaints.append(f"{name} ended with {code}")
            except subprocess.TimeoutExpired:  # tell whether it is a broker that does not answer
                owed = [unanswered_bytes(broker.http) for broker in self.trio.brokers]
                complaint = f"{name} did not leave in {LEAVE_S} s; bytes not answered: {owed}"
                self.ledger.log.complaints.append(complaint)
                member.process.kill()
        for member in self.members:
            settings = member.settings
            read_history(self.ledger, settings.group, settings.name, member.page)
        set_aside_prefetched(self.ledger)
        for topic in TOPICS:
            ledger = Ledger()
            Readers(self.trio.bootstrap, topic, PARTITIONS, ledger).read_at_the_end()
            _merge(topic, ledger, self.ledger.log)
        self.ledger.log.place_acknowledged()
        self.ledger.bugs = bug_lines(self.trio)


def unanswered_bytes(http: str) -> float:
    """Return how much of requests a broker holds that it has not answered."""
    with urlopen(f"http://{http}/metrics", timeout=CALL_S) as response:
        for line in response.read().decode().splitlines():
            if line.startswith("streamhouse_request_memory_bytes "):
                return float(line.split()[1])
    raise AssertionError("no such metric")


def _describe(bootstrap: str, group: str) -> GroupAtEnd:
    # A client of its own: librdkafka's asks a coordinator that it knows again whatever it answers.
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.describe_consumer_groups([group], request_timeout=CALL_S)[group]
    try:
        described = asked.result()
    except KafkaException as failure:
        return GroupAtEnd(str(failure), {})
    return GroupAtEnd(
        described.state.name,
        {
            member.member_id: frozenset(
                place_of(one.topic, one.partition) for one in member.assignment.topic_partitions
            )
            for member in described.members
        },
    )


def _merge(topic: str, ledger: Ledger, into: Ledger) -> None:
    """Add what readers of one topic wrote, with places for partitions."""
    for read in ledger.final:
        partition, offset = read.position
        into.final.add(Position(place_of(topic, partition), offset), read.value, read.at_s)
    for sample in ledger.end_offsets:
        partition, end = sample.position
        position = Position(place_of(topic, partition), end)
        into.end_offsets.append(EndOffset(position, sample.began_s, sample.ended_s))
    for partition, end in ledger.final_end_offsets.items():
        into.final_end_offsets[place_of(topic, partition)] = end
    into.complaints += [f"{topic}: {one}" for one in ledger.complaints]
