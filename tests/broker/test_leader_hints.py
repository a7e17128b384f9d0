"""Which leaders an answer names, and which it does not (KIP-951)."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from broker.broker_set import BrokerSet
from broker.cluster import Cluster
from broker.leader_hints import name_leaders
from protocol.ids import Partition
from protocol.metadata_response import BrokerAnswer
from protocol.produce_response import PartitionResult
from storage.metadata.brokers import BrokerRecord, Membership

TOPICS: Final = (UUID(int=1), UUID(int=2))
PARTITIONS: Final = 12
GENERATION: Final = 7
PLAINTEXT: Final = "h:{}"


def seen_by(
    node_id: int, *addresses: str, racks: Sequence[str | None] = (None, None, None)
) -> Cluster:
    """Return the cluster as one of its brokers tells of it."""
    brokers = [
        BrokerRecord(node_id=at, addresses=(address.format(9092 + at),), rack=racks[at])
        for at, address in enumerate(addresses)
    ]
    known = Membership(node_id=node_id, generation=GENERATION, brokers=brokers)
    return Cluster(cluster_id="c", brokers=BrokerSet(known), listener=0)


def told(
    cluster: Cluster, client_id: str = ""
) -> tuple[dict[tuple[UUID, int], int | None], list[BrokerAnswer]]:
    """Return whom an answer names as leader of each partition, and the addresses in it."""
    answered = [(topic_id, PartitionResult(at)) for topic_id in TOPICS for at in range(PARTITIONS)]
    nodes = name_leaders(cluster, client_id, answered)
    for _, result in answered:
        assert result.leader is None or result.leader.leader_epoch == GENERATION
    named = {
        (topic_id, result.index): result.leader and result.leader.leader_id
        for topic_id, result in answered
    }
    return named, list(nodes)


def owners(cluster: Cluster, rack: str | None = None) -> dict[tuple[UUID, int], int]:
    return {
        (topic_id, at): cluster.brokers.owner(Partition(topic_id, at), rack).node_id
        for topic_id in TOPICS
        for at in range(PARTITIONS)
    }


def test_all_leaders_but_this_broker_are_named_and_each_address_once() -> None:
    # Given a broker of three
    cluster = seen_by(0, *[PLAINTEXT] * 3)

    # When it tells who leads partitions of two topics
    named, nodes = told(cluster)

    # Then it names the others as Metadata does, and where it leads itself it names nobody
    assert named == {at: led or None for at, led in owners(cluster).items()}
    assert set(named.values()) == {None, 1, 2}
    assert sorted((one.node_id, one.host, one.port) for one in nodes) == [
        (1, "h", 9093),
        (2, "h", 9094),
    ]


def test_a_client_in_a_rack_is_sent_to_the_broker_there() -> None:
    cluster = seen_by(0, *[PLAINTEXT] * 3, racks=("a", "b", "c"))
    named, nodes = told(cluster, "app,rack=b")
    assert set(owners(cluster, "b").values()) == set(named.values()) == {1}
    assert [(one.node_id, one.rack) for one in nodes] == [(1, "b")]


def test_a_leader_that_clients_of_the_listener_cannot_reach_is_not_named() -> None:
    cluster = seen_by(0, PLAINTEXT, "SSL://h:{}", PLAINTEXT)
    named, nodes = told(cluster)
    assert 1 in owners(cluster).values()
    assert set(named.values()) == {None, 2}
    assert [one.node_id for one in nodes] == [2]
