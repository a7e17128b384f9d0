"""kill -9 of the coordinator: its members come back to it as if nothing had been."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.confluent import Confluent
from tests.clients.topics import new_topic
from tests.crash.processes import KillableBroker, killable_broker
from tests.groups.conftest import set_arguments
from tests.groups.history import check, ownerships, report
from tests.groups.member import Library, Member
from tests.groups.members import Members, running_members
from tests.groups.producing import NumberedRecords, numbered_records
from tests.groups.settings import Protocol

PARTITIONS = 4
KILLS = 2
STARTS_S = 120.0  # ten members at a time, four of them with a JVM
SESSION_MS = 60_000  # the most there may be: on a busy machine the broker is away for long
HEARTBEAT_MS = 3_000  # with 300, librdkafka connects anew if an answer to one takes a second
BROKERS_SESSION = (
    *("--set", f"group.consumer.session.timeout.ms={SESSION_MS}"),
    *("--set", f"group.consumer.heartbeat.interval.ms={HEARTBEAT_MS}"),
)
CHANGES = ("assigned", "revoked", "lost")


@dataclass(frozen=True, slots=True)
class Case:
    library: Library
    protocol: Protocol
    assignor: str

    def __str__(self) -> str:
        return f"{self.library}-{self.protocol}-{self.assignor}"


CASES = (  # eager where there is a choice: nobody can overlook a rebalance
    Case("librdkafka", "classic", "range"),
    Case("librdkafka", "consumer", "uniform"),
    Case("aiokafka", "classic", "range"),
    Case("java", "classic", "cooperative-sticky"),
    Case("java", "consumer", "uniform"),
)


@pytest.fixture
def killable() -> Iterator[KillableBroker]:
    if "STREAMHOUSE_TEST_BOOTSTRAP" in os.environ:
        pytest.skip("a broker that somebody else has started is not ours to kill")
    home = Path(tempfile.mkdtemp(prefix="streamhouse-groups-", dir="/tmp"))  # short: for a socket
    try:
        with killable_broker(home, *set_arguments(), *BROKERS_SESSION) as broker:
            yield broker
    finally:
        shutil.rmtree(home)


@dataclass(frozen=True, slots=True)
class Group:
    """Two members of one kind, and the topic that is theirs."""

    case: Case
    members: Members
    records: NumberedRecords

    @classmethod
    def start(cls, case: Case, bootstrap: str, home: Path, stack: ExitStack) -> "Group":
        home.mkdir()
        topic = new_topic(Confluent(bootstrap=bootstrap), "killed", partition_count=PARTITIONS)
        records = stack.enter_context(numbered_records(bootstrap, topic, PARTITIONS, rate=100))
        members = stack.enter_context(running_members(bootstrap, home))
        for name in "AB":
            members.start(
                case.library,
                name=name,
                topic=topic,
                group=topic,
                protocol=case.protocol,
                assignor=case.assignor,
                session_ms=SESSION_MS,
            )
        return cls(case, members, records)

    def changes(self) -> list[object]:
        """Return what has changed for its members so far: assignments and generations."""
        return [
            (
                member.name,
                [(event.name, event.partitions) for event in member.said(*CHANGES)],
                _generation(member),
            )
            for member in self.members.all
        ]

    def until_all_commit(self, after_s: float) -> None:
        self.members.until(
            lambda: all(one.said("committed", after_s=after_s) for one in self.members.all),
            f"commit of all {self.case} after {after_s:.3f}",
        )


def _generation(member: Member) -> int | None:
    """Return the generation, or member epoch, of its last commit; None if it cannot know it."""
    generation: int | None = member.said("committed")[-1].fields.get("generation")
    return generation


def test_members_keep_their_generation_when_their_coordinator_comes_back(
    killable: KillableBroker, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        # Given a group of each kind, reading all the time
        groups = [
            Group.start(case, killable.bootstrap, tmp_path / str(case), stack) for case in CASES
        ]
        for group in groups:
            group.members.until_shared(PARTITIONS, timeout_s=STARTS_S)
            group.until_all_commit(after_s=0)
        before = [group.changes() for group in groups]

        # When the broker is killed and comes back at its address, again and again
        for _ in range(KILLS):
            killable.process.kill()
            killable.start()
            back_s = time.time()
            # Then the members go on and commit
            for group in groups:
                group.until_all_commit(after_s=back_s)

        # And none of them has noticed anything but a pause
        after = [group.changes() for group in groups]
        changed = [f"{group.case}: {was} became {now}"
                   for group, was, now in zip(groups, before, after, strict=True)
                   if was != now]  # fmt: skip
        assert not changed, "\n".join(changed)
        found: list[str] = []
        for group in groups:
            record_counts = group.records.stop()
            group.members.until_read(record_counts)
            group.members.stop()
            found += check(ownerships(group.members.all), record_counts)
        assert not found, report(found)
