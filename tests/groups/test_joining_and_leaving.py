"""Two members become three and two again, with every assignor of every client library."""

from dataclasses import dataclass

import pytest

from tests.groups.conftest import NewTopic
from tests.groups.history import check, ownerships, read_twice, report
from tests.groups.member import Library, Member
from tests.groups.members import Members
from tests.groups.producing import numbered_records
from tests.groups.settings import Protocol

PARTITIONS = 6


@dataclass(frozen=True, slots=True)
class Case:
    """Attributes: incremental tells whether members keep what stays theirs (KIP-429, KIP-848)."""

    library: Library
    protocol: Protocol
    assignor: str

    @property
    def incremental(self) -> bool:
        return self.protocol == "consumer" or self.assignor == "cooperative-sticky"

    def __str__(self) -> str:
        return f"{self.library}-{self.protocol}-{self.assignor}"


CASES = (
    Case("librdkafka", "classic", "range"),
    Case("librdkafka", "classic", "roundrobin"),
    Case("librdkafka", "classic", "cooperative-sticky"),
    Case("librdkafka", "consumer", "uniform"),
    Case("librdkafka", "consumer", "range"),
    Case("aiokafka", "classic", "range"),
    Case("aiokafka", "classic", "roundrobin"),
    Case("aiokafka", "classic", "sticky"),
    Case("java", "classic", "range"),
    Case("java", "classic", "roundrobin"),
    Case("java", "classic", "sticky"),
    Case("java", "classic", "cooperative-sticky"),
    Case("java", "consumer", "uniform"),
    Case("java", "consumer", "range"),
)


def taken_from(member: Member) -> set[int]:
    return {partition for one in member.said("revoked", "lost") for partition in one.partitions}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_group_of_two_becomes_three_and_two_again(
    case: Case, members: Members, topic_of: NewTopic
) -> None:
    # Given six partitions that are written to all the time, and two members with three each
    topic = topic_of(PARTITIONS)
    settings = {
        "topic": topic,
        "group": topic,
        "protocol": case.protocol,
        "assignor": case.assignor,
    }
    with numbered_records(members.bootstrap, topic, PARTITIONS) as records:
        a = members.start(case.library, name="A", **settings)
        b = members.start(case.library, name="B", **settings)
        members.until_shared(PARTITIONS)
        owned = {member.name: set(member.owned) for member in (a, b)}
        taken = {member.name: taken_from(member) for member in (a, b)}

        # When a third one joins
        c = members.start(case.library, name="C", **settings)

        # Then each has two
        members.until_shared(PARTITIONS)
        if case.incremental:  # and a member goes on with the partitions that it keeps
            for member in (a, b):
                now_taken = taken_from(member) - taken[member.name]
                assert now_taken == owned[member.name] - member.owned

        # When the first one leaves, which led the group if anyone did
        a.stop()

        # Then the others have three each, and go on
        members.until_shared(PARTITIONS, among=(b, c))
        record_counts = records.stop()
    members.until_read(record_counts)
    members.stop()

    # And every record was read once: whoever went had committed what it had read
    owners = ownerships(members.all)
    found = check(owners, record_counts)
    assert not found, report(found)
    assert read_twice(owners) == 0
