"""A classic group becomes one of KIP-848 and a classic one again, member by member, while it reads.

Brokers convert the group when the first member of the other protocol comes (KIP-848, "online
migration"); classic members must use a cooperative assignor whose protocol version allows it.
"""

from confluent_kafka.admin._resource import ResourceType

from tests.clients.confluent import Confluent
from tests.groups.conftest import NewTopic
from tests.groups.history import check, ownerships, read_twice, report
from tests.groups.member import Member
from tests.groups.members import Members
from tests.groups.producing import numbered_records
from tests.groups.settings import Protocol

PARTITIONS = 6
HEARTBEAT_MS = 300  # the Java client does not mind a late answer


def test_a_group_changes_its_protocol_and_changes_back(
    members: Members, topic_of: NewTopic, confluent: Confluent
) -> None:
    topic = topic_of(PARTITIONS)
    heartbeat = {"consumer.heartbeat.interval.ms": str(HEARTBEAT_MS)}
    confluent.set_configs(ResourceType.GROUP, topic, heartbeat)

    def start(name: str, protocol: Protocol) -> Member:
        assignor = "cooperative-sticky" if protocol == "classic" else "uniform"
        return members.start(
            "java", name=name, topic=topic, group=topic, protocol=protocol, assignor=assignor
        )

    # Given a classic group of two that reads what is written all the time
    with numbered_records(members.bootstrap, topic, PARTITIONS) as records:
        start("classic-1", "classic")
        start("classic-2", "classic")
        members.until_shared(PARTITIONS)

        # When its members are replaced one by one, and then again
        successors: tuple[Protocol, ...] = ("consumer", "consumer", "classic", "classic")
        for number, protocol in enumerate(successors, start=3):
            members.running[0].stop()
            start(f"{protocol}-{number}", protocol)
            # Then each time both together have all partitions
            members.until_shared(PARTITIONS)
        record_counts = records.stop()
    members.until_read(record_counts)
    members.stop()

    # And at no time has a partition had two owners, and every record was read once
    owners = ownerships(members.all)
    found = check(owners, record_counts)
    assert not found, report(found)
    assert read_twice(owners) == 0
