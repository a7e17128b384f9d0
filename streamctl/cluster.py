"""Questions to a cluster and changes to its topics; what a broker refuses becomes a Failure."""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Final, TypeVar

from confluent_kafka import KafkaException, Node, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from streamctl.cluster_state import (
    Broker,
    ClusterIdentity,
    PartitionState,
    TopicSetting,
    TopicState,
)
from streamctl.connection import Connection, Trouble, admin_client
from streamctl.errors import (
    UNREACHABLE,
    BrokerUnreachable,
    Failure,
    UnknownTopic,
    kafka_error,
    refusal,
)

CONNECT_TIMEOUT_S: Final = 5.0
REQUEST_TIMEOUT_S: Final = 30.0
_LISTEN_S: Final = 0.05  # how often errors are looked at while a request is under way

Result = TypeVar("Result")


class Cluster:
    """A connection for questions and changes; every method raises Failure when refused."""

    def __init__(self, connection: Connection) -> None:
        self._bootstrap = connection.bootstrap
        self._trouble = Trouble()
        self._client = admin_client(connection, self._trouble)

    def identity(self) -> ClusterIdentity:
        """Return the cluster's id and brokers.

        Raises:
            BrokerUnreachable: none answered within CONNECT_TIMEOUT_S.
        """
        asked = self._client.describe_cluster(request_timeout=CONNECT_TIMEOUT_S)
        answer = self._wait(asked, "cluster", timeout_s=CONNECT_TIMEOUT_S)
        return ClusterIdentity(
            cluster_id=answer.cluster_id,
            controller_id=_node_id(answer.controller),
            brokers=[
                Broker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
                for node in sorted(answer.nodes, key=lambda node: node.id)
            ],
        )

    def topic_names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        try:
            return sorted(self._client.list_topics(timeout=REQUEST_TIMEOUT_S).topics)
        except KafkaException as exception:
            raise self._failure("topics", exception, REQUEST_TIMEOUT_S) from exception

    def topics(self, names: Iterable[str]) -> list[TopicState]:
        """Return the topics of these names, in their order.

        Raises:
            UnknownTopic: one does not exist; it is not created by asking.
        """
        wanted = list(names)
        if not wanted:
            return []
        answers = self._client.describe_topics(
            TopicCollection(wanted), request_timeout=REQUEST_TIMEOUT_S
        )
        states = []
        for name in wanted:
            described = self._wait(answers[name], f"topic {name!r}", topic=name)
            partitions = [
                PartitionState(
                    index=partition.id,
                    leader=_node_id(partition.leader),
                    replicas=[node.id for node in partition.replicas],
                    in_sync_replicas=[node.id for node in partition.isr],
                )
                for partition in sorted(described.partitions, key=lambda part: part.id)
            ]
            states.append(
                TopicState(
                    name=name,
                    topic_id=str(described.topic_id),
                    internal=described.is_internal,
                    partitions=partitions,
                )
            )
        return states

    def topic(self, name: str) -> TopicState:
        """Return one topic. Raises BrokerUnreachable and UnknownTopic."""
        self.identity()  # tells "no broker" within seconds, apart from "no such topic"
        return self.topics([name])[0]

    def earliest_offsets(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the log start offset of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def latest_offsets(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the high watermark (exclusive) of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def topic_settings(self, name: str) -> list[TopicSetting]:
        """Return the configurations that are not defaults, by name."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        asked = self._client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        entries = self._wait(asked[resource], f"settings of {name!r}", topic=name)
        return [
            TopicSetting(name=entry.name, value=entry.value, source=_source_name(entry.source))
            for entry in sorted(entries.values(), key=lambda entry: entry.name)
            if _source_name(entry.source) != "default"
        ]

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic; -1 partitions or replicas take the broker's default."""
        try:
            topic = NewTopic(
                name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                config=dict(settings),
            )
        except ValueError as error:  # the client's own limits
            raise Failure(str(error)) from error
        asked = self._client.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)
        self._wait(asked[name], f"topic {name!r}")

    def add_partitions(self, name: str, *, total: int) -> None:
        """Raise the partition count of a topic to `total`."""
        asked = self._client.create_partitions(
            [NewPartitions(name, total)], request_timeout=REQUEST_TIMEOUT_S
        )
        self._wait(asked[name], f"topic {name!r}", topic=name)

    def alter_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Set configurations of a topic, or unset (None) them."""
        entries = [
            ConfigEntry(
                setting,
                value,
                incremental_operation=(
                    AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
                ),
            )
            for setting, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        asked = self._client.incremental_alter_configs(
            [resource], request_timeout=REQUEST_TIMEOUT_S
        )
        self._wait(asked[resource], f"topic {name!r}", topic=name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        asked = self._client.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S)
        self._wait(asked[name], f"topic {name!r}", topic=name)

    def _offsets(self, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> dict[int, int]:
        wanted = {TopicPartition(topic, partition): spec for partition in partitions}
        if not wanted:
            return {}
        asked = self._client.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S)
        return {
            at.partition: self._wait(answer, f"{topic!r} partition {at.partition}").offset
            for at, answer in asked.items()
        }

    def _wait(
        self,
        answer: "Future[Result]",
        subject: str,
        *,
        topic: str | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Result:
        """Return the answer, listening meanwhile for errors that no waiting will cure."""
        give_up = time.monotonic() + timeout_s + 1  # librdkafka keeps the time; this is a net
        while True:
            try:
                return answer.result(timeout=_LISTEN_S)
            except TimeoutError:
                self._client.poll(0)
                if self._trouble.permanent or time.monotonic() > give_up:
                    raise self._unreachable(timeout_s) from None
            except KafkaException as exception:
                if topic and kafka_error(exception).name() == "UNKNOWN_TOPIC_OR_PART":
                    raise UnknownTopic(topic, self.topic_names()) from exception
                raise self._failure(subject, exception, timeout_s) from exception

    def _failure(self, subject: str, exception: KafkaException, waited_s: float) -> Failure:
        error = kafka_error(exception)
        if error.name() in UNREACHABLE:
            return self._unreachable(waited_s)
        return refusal(subject, error)

    def _unreachable(self, waited_s: float) -> BrokerUnreachable:
        self._client.poll(0)  # the reason may have come with the failure
        return BrokerUnreachable(self._bootstrap, waited_s=waited_s, reason=self._trouble.reason)


def _node_id(node: Node | None) -> int | None:
    return None if node is None or node.id < 0 else node.id


def _source_name(source: ConfigSource | int) -> str:
    """Return topic, broker, cluster or default: where a value was set."""
    names = {
        ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
        ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "cluster",
        ConfigSource.STATIC_BROKER_CONFIG: "broker",
    }
    return names.get(ConfigSource(source), "default")
