"""What a cluster says about itself and its topics, as plain values."""

from dataclasses import dataclass

from confluent_kafka import Node
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    ConfigSource,
    TopicDescription,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker as Metadata names it; `rack` is None where none is set."""

    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentity:
    """Who the cluster is; `controller_id` is None while there is no controller."""

    cluster_id: str | None
    controller_id: int | None
    brokers: list[Broker]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One partition and the node ids that serve it; `leader` is None while there is none."""

    index: int
    leader: int | None
    replicas: list[int]
    in_sync_replicas: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic and its partitions, in order."""

    name: str
    topic_id: str
    internal: bool
    partitions: list[PartitionState]

    @property
    def replication_factor(self) -> int:
        """Replicas of the partition that has the most."""
        return max((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    """A topic configuration whose value is not the default; None if the broker hides it."""

    name: str
    value: str | None
    source: str


def source_name(source: ConfigSource | int) -> str:
    """Return topic, broker, cluster or default: where a value was set."""
    names = {
        ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
        ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "cluster",
        ConfigSource.STATIC_BROKER_CONFIG: "broker",
    }
    return names.get(ConfigSource(source), "default")


def topic_state(described: TopicDescription) -> TopicState:
    """Return what a broker told of a topic."""
    return TopicState(
        name=described.name,
        topic_id=str(described.topic_id),
        internal=described.is_internal,
        partitions=[
            PartitionState(
                index=partition.id,
                leader=node_id(partition.leader),
                replicas=[node.id for node in partition.replicas],
                in_sync_replicas=[node.id for node in partition.isr],
            )
            for partition in sorted(described.partitions, key=lambda part: part.id)
        ],
    )


def node_id(node: Node | None) -> int | None:
    """Return a broker's id; None for what stands for no broker."""
    return None if node is None or node.id < 0 else node.id
