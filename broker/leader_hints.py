"""What an answer tells of the leaders of partitions that this broker does not lead (KIP-951)."""

from collections.abc import Iterable, Sequence
from typing import Protocol
from uuid import UUID

from broker.cluster import Cluster, Node
from protocol.ids import Partition
from protocol.leader_hints import CurrentLeader
from protocol.metadata_response import BrokerAnswer


class Answered(Protocol):
    """What the answer says of a partition."""

    index: int
    leader: CurrentLeader | None


def name_leaders(
    cluster: Cluster, client_id: str, refused: Iterable[tuple[UUID, Answered]]
) -> Sequence[BrokerAnswer]:
    """Tell of partitions, with their topics' ids, who leads them; return where these brokers are.

    As Metadata would tell a client of this id. Nobody is sent back to this broker: where it has
    just been overtaken it may not know better, and who is told so would ask again without a pause.
    """
    brokers, rack = cluster.brokers, cluster.rack_of(client_id)
    others = {one.node_id: one for one in cluster.live if one.node_id != cluster.node_id}
    named: dict[int, Node] = {}
    for topic_id, answered in refused:
        leader = brokers.owner(Partition(topic_id, answered.index), rack)
        node = others.get(leader.node_id)
        if node is not None:
            answered.leader = CurrentLeader(node.node_id, brokers.generation)
            named[node.node_id] = node
    return [
        BrokerAnswer(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
        for one in named.values()
    ]
