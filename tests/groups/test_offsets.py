"""Committed offsets, as each client library sees them."""

import json
import re
from dataclasses import dataclass

import pytest

from tests.clients.confluent import Confluent
from tests.clients.kcat import kcat
from tests.clients.processes import run
from tests.clients.records import SentRecord
from tests.groups.asking import await_committed, committed
from tests.groups.conftest import NewTopic
from tests.groups.member import Library
from tests.groups.members import Members
from tests.groups.settings import Protocol

LIBRARIES: tuple[Library, ...] = ("librdkafka", "aiokafka", "java")
COUNT = 20
METADATA = "as of 2026 ✓"
RARELY_MS = 600_000


@dataclass(frozen=True, slots=True)
class Case:
    library: Library
    protocol: Protocol

    def __str__(self) -> str:
        return f"{self.library}-{self.protocol}"


CASES = (
    Case("librdkafka", "classic"),
    Case("librdkafka", "consumer"),
    Case("aiokafka", "classic"),
    Case("java", "classic"),
    Case("java", "consumer"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A topic of two partitions, one with COUNT records and one with none."""

    confluent: Confluent
    name: str
    partition: int

    @property
    def empty_partition(self) -> int:
        return 1 - self.partition

    def append(self, count: int = 1) -> None:
        """Send records to the filled partition."""
        records = [SentRecord(key=b"the same", value=b"%d" % number) for number in range(count)]
        self.confluent.produce(self.name, records)


@pytest.fixture
def topic(topic_of: NewTopic, confluent: Confluent) -> Filled:
    name = topic_of(2)
    Filled(confluent=confluent, name=name, partition=0).append(COUNT)
    counts = confluent.record_counts(name)
    return Filled(confluent=confluent, name=name, partition=0 if counts[0] else 1)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_member_assigned_by_hand_commits_and_finds_offset_and_metadata(
    library: Library, members: Members, topic: Filled
) -> None:
    settings = {"topic": topic.name, "group": topic.name, "assigned": (0, 1)}
    # Given a consumer that never joins a group, and has read and committed one partition
    first = members.start(library, name="first", metadata=METADATA, **settings)
    members.until_read({topic.partition: COUNT})
    first.stop()

    # When another one begins where that has stopped
    second = members.start(library, name="second", **settings)
    topic.append()
    members.until_read({topic.partition: COUNT + 1})
    second.stop()

    # Then it finds the offset with its metadata, and none where none was committed
    assert first.said("found")[0].offsets == {0: None, 1: None}
    found = second.said("found")[0].offsets
    assert found == {topic.partition: [COUNT, METADATA], topic.empty_partition: None}
    assert first.read() == {topic.partition: list(range(COUNT))}
    assert second.read() == {topic.partition: [COUNT]}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_auto_commit_works_while_a_member_runs_and_when_it_leaves(
    case: Case, members: Members, topic: Filled
) -> None:
    settings = {"topic": topic.name, "group": topic.name, "auto_commit": True}
    settings |= {"protocol": case.protocol, "assignor": "range"}
    # When a member that commits every 100 ms has read everything
    first = members.start(case.library, name="first", commit_ms=100, **settings)
    members.until_read({topic.partition: COUNT})

    # Then that is committed soon, while it runs
    await_committed(members.bootstrap, topic.name, {topic.partition: COUNT})
    first.stop()

    # When one that never does so by the clock leaves
    second = members.start(case.library, name="second", commit_ms=RARELY_MS, **settings)
    topic.append()
    members.until_read({topic.partition: COUNT + 1})
    second.stop()

    # Then what it has read is committed, too
    assert committed(members.bootstrap, topic.name)[topic.partition] == COUNT + 1
    assert second.read() == {topic.partition: [COUNT]}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_group_without_offsets_may_begin_with_the_next_record(
    library: Library, members: Members, topic: Filled
) -> None:
    latest = members.start(
        library, name="latest", topic=topic.name, group=topic.name, reset="latest"
    )
    members.until(lambda: bool(latest.owned), "assignment")

    # When records come while it finds out where the end is
    sent = 0
    while not latest.said("records"):
        topic.append()
        sent += 1
        assert sent < COUNT * COUNT, "nothing is read"

    # Then it reads from there on, and none of the older ones
    first, *_ = latest.read()[topic.partition]
    assert COUNT <= first < COUNT + sent


@pytest.mark.parametrize(
    ("library", "error"),
    [
        ("librdkafka", "_AUTO_OFFSET_RESET"),
        ("aiokafka", "NoOffsetForPartitionError"),
        ("java", "NoOffsetForPartitionException"),
    ],
)
def test_a_group_without_offsets_may_refuse_to_begin(
    library: Library, error: str, members: Members, topic: Filled
) -> None:
    strict = members.start(library, name="strict", topic=topic.name, group=topic.name, reset="none")

    members.until(lambda: bool(strict.said("error")), "error")

    assert error in strict.said("error")[0].fields["error"]
    assert strict.read() == {}


def test_kcat_reads_as_a_group_and_goes_on_where_it_stopped(bootstrap: str, topic: Filled) -> None:
    program = kcat(bootstrap).path
    options = ("-X", "auto.offset.reset=earliest", "-e", "-J")  # -e: leave at the end
    command = (program, "-b", bootstrap, "-G", topic.name, *options, topic.name)

    # When kcat reads everything, and then once more
    first = run(command, timeout_s=60)
    topic.append()
    second = run(command, timeout_s=60)

    # Then it was a group's only member, and has read each record once
    assert re.search(r"rebalanced \(memberid .*\): assigned: .*\[0\].*\[1\]", first.stderr)
    offsets = [[json.loads(line)["offset"] for line in one.stdout.split("\n") if line]
               for one in (first, second)]  # fmt: skip
    assert offsets == [list(range(COUNT)), [COUNT]]
    await_committed(bootstrap, topic.name, {topic.partition: COUNT + 1})
