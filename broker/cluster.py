"""The brokers of the cluster as clients are told of them, and who owns which partition (D1).

There is one broker yet: it owns everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from storage.partition_log import PartitionLog

LEADER_EPOCH: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One broker.

    Attributes:
        host, port: where clients reach it (the advertised address).
    """

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The members of the cluster, this broker among them."""

    cluster_id: str
    this: Node

    @property
    def nodes(self) -> Sequence[Node]:
        return (self.this,)

    @property
    def controller(self) -> Node:
        return self.this

    def placement(self, partition_log: PartitionLog) -> dict[str, object]:
        """Return the fields that tell clients where a partition is, for whatever describes it."""
        owner = self.owner(partition_log).node_id
        return {
            "leader_id": owner,
            "leader_epoch": self.leader_epoch(partition_log),
            "replica_nodes": (owner,),
            "isr_nodes": (owner,),
            "offline_replicas": (),
        }

    def leader_epoch(self, partition_log: PartitionLog) -> int:
        """Return the epoch that clients see with the owner; no epoch ever truncated the log."""
        del partition_log
        return LEADER_EPOCH

    def owner(self, partition_log: PartitionLog) -> Node:
        """Return who is named leader of a partition, for locality only."""
        del partition_log  # every partition has the same owner
        return self.this
