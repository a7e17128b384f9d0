"""Static members (KIP-345) come back within their session without a rebalance."""

from dataclasses import dataclass

import pytest
from confluent_kafka.admin._resource import ResourceType

from tests.clients.confluent import Confluent
from tests.groups.conftest import NewTopic
from tests.groups.history import check, ownerships, report
from tests.groups.member import Library
from tests.groups.members import Members
from tests.groups.producing import numbered_records
from tests.groups.settings import Protocol

PARTITIONS = 6
SESSION_MS = 45_000  # a JVM may take long to start
WATCHED_S = 4.5  # two heartbeat intervals of KIP-848: whoever must rejoin has heard of it


@dataclass(frozen=True, slots=True)
class Case:
    """Attributes: killed is how the member goes; it is closed otherwise.

    With KIP-848 only a member that has left with epoch -2 may come back within its session.
    """

    library: Library
    protocol: Protocol
    assignor: str
    killed: bool

    def __str__(self) -> str:
        return f"{self.library}-{self.protocol}-{'killed' if self.killed else 'closed'}"


CASES = (  # the eager assignors: nobody can overlook a rebalance
    Case("librdkafka", "classic", "range", killed=True),
    Case("librdkafka", "consumer", "uniform", killed=False),
    Case("aiokafka", "classic", "range", killed=True),
    Case("java", "classic", "range", killed=True),
    Case("java", "classic", "range", killed=False),
    Case("java", "consumer", "uniform", killed=False),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_static_member_comes_back_without_a_rebalance(
    case: Case, members: Members, topic_of: NewTopic, confluent: Confluent
) -> None:
    # Given two static members that share six partitions
    topic = topic_of(PARTITIONS)
    session = {"consumer.session.timeout.ms": str(SESSION_MS)}
    confluent.set_configs(ResourceType.GROUP, topic, session)
    settings = {
        "topic": topic,
        "group": topic,
        "protocol": case.protocol,
        "assignor": case.assignor,
        "session_ms": SESSION_MS,
    }
    with numbered_records(members.bootstrap, topic, PARTITIONS) as records:
        a = members.start(case.library, name="A", instance="a", **settings)
        b = members.start(case.library, name="B", instance="b", **settings)
        members.until_shared(PARTITIONS)
        kept = set(b.owned)
        members.until(lambda: bool(b.said("committed")), "commit of B")
        heard = len(a.said("assigned", "revoked", "lost"))
        last_generation = a.events[-1].fields.get("generation")

        # When one goes, and comes back with the same instance id
        if case.killed:
            b.kill()
        else:
            b.stop()
        again = members.start(case.library, name="B again", instance="b", **settings)

        # Then it has its partitions back
        members.until(lambda: again.owned == kept, f"return of {kept} to B")
        since_s = again.said("assigned")[-1].at_s
        members.until(
            lambda: all(one.said("committed", after_s=since_s + WATCHED_S) for one in (a, again)),
            "later commit of both",
        )
        # And the other one has heard nothing of it
        assert len(a.said("assigned", "revoked", "lost")) == heard
        assert a.events[-1].fields.get("generation") == last_generation
        record_counts = records.stop()
    members.until_read(record_counts)
    members.stop()
    found = check(ownerships(members.all), record_counts)
    assert not found, report(found)
