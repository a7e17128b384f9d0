"""A member is killed with kill -9: the others take its partitions over, in time and exactly."""

from dataclasses import dataclass

import pytest
from confluent_kafka.admin._resource import ResourceType

from tests.clients.confluent import Confluent
from tests.groups.conftest import CONSUMER_HEARTBEAT_MS, NewTopic
from tests.groups.history import check, ownerships, report
from tests.groups.member import Library
from tests.groups.members import Members
from tests.groups.producing import numbered_records
from tests.groups.settings import Protocol
from tests.support.host import Stopwatch

PARTITIONS = 6
SESSION_MS = 6_000
REACTION_S = 1.0
WARM = 5  # commits; a program that has only just started reacts slowly


@dataclass(frozen=True, slots=True)
class Case:
    library: Library
    protocol: Protocol
    assignor: str

    @property
    def taken_over_s(self) -> float:
        """How long it may take: until the session has ended, and for what follows."""
        told_s = 2 * CONSUMER_HEARTBEAT_MS / 1000 if self.protocol == "consumer" else 0.0
        return SESSION_MS / 1000 + told_s + REACTION_S

    def __str__(self) -> str:
        return f"{self.library}-{self.protocol}-{self.assignor}"


CASES = (
    Case("librdkafka", "classic", "range"),
    Case("librdkafka", "consumer", "uniform"),
    Case("aiokafka", "classic", "roundrobin"),
    Case("java", "classic", "cooperative-sticky"),
    Case("java", "consumer", "range"),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_survivors_share_the_partitions_of_a_killed_member(
    case: Case, members: Members, topic_of: NewTopic, confluent: Confluent
) -> None:
    # Given six partitions that are written to all the time, and three members with two each
    topic = topic_of(PARTITIONS)
    session = {"consumer.session.timeout.ms": str(SESSION_MS)}
    confluent.set_configs(ResourceType.GROUP, topic, session)
    with numbered_records(members.bootstrap, topic, PARTITIONS) as records:
        settings = {"topic": topic, "group": topic, "protocol": case.protocol}
        for name in "ABC":
            members.start(
                case.library,
                name=name,
                assignor=case.assignor,
                session_ms=SESSION_MS,
                **settings,
            )
        members.until_shared(PARTITIONS)
        a, b, c = members.all
        members.until(
            lambda: all(len(one.said("committed")) > WARM for one in (a, b, c)), "commits of all"
        )

        # When B is killed
        stopwatch = Stopwatch()
        b.kill()

        # Then A and C hold three each, each partition once, soon after B's session has ended
        members.until_shared(PARTITIONS, among=(a, c))
        assert b.ended_s is not None
        last = max(event.at_s for event in (*a.said("assigned"), *c.said("assigned")))
        took_s, late_s = last - b.ended_s, stopwatch.waited_s()
        assert took_s <= case.taken_over_s + late_s, f"took {took_s:.2f} s, {late_s:.2f} s waiting"
        record_counts = records.stop()
    members.until_read(record_counts)
    members.stop()

    # And nothing was skipped, and nothing read twice that B had committed
    found = check(ownerships(members.all), record_counts)
    assert not found, report(found)
