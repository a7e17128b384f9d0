"""Questions to a cluster and changes to its topics; what a broker refuses becomes a Failure."""

from collections.abc import Iterable, Mapping

from confluent_kafka import IsolationLevel, KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from streamctl.cluster_state import (
    Broker,
    ClusterIdentity,
    TopicSetting,
    TopicState,
    node_id,
    source_name,
    topic_state,
)
from streamctl.connection import Connection
from streamctl.errors import Failure, refused_with
from streamctl.requests import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, Requests, own_limits


class Cluster:
    """A connection for questions and changes; every method raises Failure when refused.

    Attributes:
        requests: the client under it, for questions about other things than topics.
    """

    def __init__(self, connection: Connection) -> None:
        self.requests = Requests(connection)
        self._client = self.requests.client

    def identity(self) -> ClusterIdentity:
        """Return the cluster's id and brokers.

        Raises:
            BrokerUnreachable: none answered within CONNECT_TIMEOUT_S.
        """
        asked = self._client.describe_cluster(request_timeout=CONNECT_TIMEOUT_S)
        answer = self.requests.wait(asked, "cluster", timeout_s=CONNECT_TIMEOUT_S)
        return ClusterIdentity(
            cluster_id=answer.cluster_id,
            controller_id=node_id(answer.controller),
            brokers=[
                Broker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
                for node in sorted(answer.nodes, key=lambda node: node.id)
            ],
        )

    def topic_names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return self.requests.topic_names()

    def topics(
        self, names: Iterable[str], *, operation: str = "describe", may_be_gone: bool = False
    ) -> list[TopicState]:
        """Return the topics of these names, in their order.

        Args:
            names: of topics.
            operation: what is to be done with them; an ACL that allows it allows this.
            may_be_gone: those that do not exist are left out.

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
            needs = f"{operation} --topic {name}"
            try:
                described = self.requests.wait(
                    answers[name],
                    f"topic {name!r}",
                    topic=None if may_be_gone else name,
                    needs=needs,
                )
            except Failure as failure:
                if not (may_be_gone and refused_with(failure, KafkaError.UNKNOWN_TOPIC_OR_PART)):
                    raise
            else:
                states.append(topic_state(described))
        return states

    def topic(self, name: str, *, operation: str = "describe") -> TopicState:
        """Return one topic, as `topics` does. Raises BrokerUnreachable and UnknownTopic."""
        self.identity()  # tells "no broker" within seconds, apart from "no such topic"
        return self.topics([name], operation=operation)[0]

    def partitions(self, topic: str, wanted: Iterable[int] | None) -> list[int]:
        """Return the wanted partitions of a topic that is to be read, or all (None), sorted.

        Raises:
            UnknownTopic: it does not exist.
            Failure: it has not got one of them.
        """
        existing = [at.index for at in self.topics([topic], operation="read")[0].partitions]
        if wanted is None:
            return existing
        chosen = sorted(set(wanted))
        missing = sorted(set(chosen) - set(existing))
        if missing:
            raise Failure(
                f"topic {topic!r} has no partition {missing[0]}",
                fix=f"it has 0 to {len(existing) - 1}",
            )
        return chosen

    def earliest_offsets(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the log start offset of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def latest_offsets(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the high watermark (exclusive) of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def readable_ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the end (exclusive) of what a consumer of this connection reads now.

        Open transactions hold it back, unless isolation.level=read_uncommitted.
        """
        level = self.requests.connection.properties.get("isolation.level", "").strip()
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(
            topic, partitions, latest, IsolationLevel[level.upper() or "READ_COMMITTED"]
        )

    def offsets_at(
        self, topic: str, partitions: Iterable[int], timestamp_ms: int
    ) -> dict[int, int | None]:
        """Return the first offset of each partition whose record is not older than a time.

        Returns:
            By partition; None where every record is older.
        """
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        found = self._offsets(topic, partitions, spec)
        return {at: None if offset < 0 else offset for at, offset in found.items()}

    def topic_settings(self, name: str) -> list[TopicSetting]:
        """Return the configurations that are not defaults, by name."""
        return [one for one in self.all_topic_settings(name) if one.source != "default"]

    def all_topic_settings(self, name: str) -> list[TopicSetting]:
        """Return all configurations that topics have, by name."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        needs = f"describe-configs --topic {name}"
        asked = self._client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        entries = self.requests.wait(
            *(asked[resource], f"settings of {name!r}"), topic=name, needs=needs
        )
        return [
            TopicSetting(name=entry.name, value=entry.value, source=source_name(entry.source))
            for entry in sorted(entries.values(), key=lambda entry: entry.name)
        ]

    def create_topic(
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        settings: Mapping[str, str],
        may_exist: bool = False,
    ) -> bool:
        """Create a topic; -1 partitions or replicas take the broker's default.

        Returns:
            Whether it was: not if it is there already, and may be.
        """
        with own_limits():
            topic = NewTopic(
                name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                config=dict(settings),
            )
            asked = self._client.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)
        try:
            self.requests.wait(asked[name], f"topic {name!r}", needs=f"create --topic {name}")
        except Failure as failure:
            if may_exist and refused_with(failure, KafkaError.TOPIC_ALREADY_EXISTS):
                return False
            raise
        return True

    def add_partitions(self, name: str, *, total: int) -> None:
        """Raise the partition count of a topic to `total`."""
        with own_limits():
            asked = self._client.create_partitions(
                [NewPartitions(name, total)], request_timeout=REQUEST_TIMEOUT_S
            )
        self.requests.wait(
            asked[name], f"topic {name!r}", topic=name, needs=f"alter --topic {name}"
        )

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
        self.requests.wait(
            asked[resource], f"topic {name!r}", topic=name, needs=f"alter-configs --topic {name}"
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        asked = self._client.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S)
        self.requests.wait(
            asked[name], f"topic {name!r}", topic=name, needs=f"delete --topic {name}"
        )

    def _offsets(
        self,
        topic: str,
        partitions: Iterable[int],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[int, int]:
        wanted = {TopicPartition(topic, partition): spec for partition in partitions}
        if not wanted:
            return {}
        asked = self._client.list_offsets(
            wanted, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_S
        )
        return {
            at.partition: self.requests.wait(
                *(answer, f"{topic!r} partition {at.partition}"), needs=f"describe --topic {topic}"
            ).offset
            for at, answer in asked.items()
        }
