"""confluent-kafka: librdkafka 2.x from Python. It also creates topics and asks for offsets."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.clients.records import ConsumedRecord, SentRecord

CALL_TIMEOUT_S = 90.0
BATCH_TIMEOUT_S = 0.2  # consume() waits this long for a full batch, even at the end
QUEUE_FULL_POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Confluent:
    """The client, pointed at one cluster.

    Attributes:
        bootstrap: HOST:PORT.
        client_id: as it names itself to brokers; "rack=NAME" in it chooses leaders there.
    """

    bootstrap: str
    client_id: str = "test"

    def create_topic(
        self, name: str, *, partition_count: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic.

        Raises:
            KafkaException: as the broker answered.
        """
        topic = NewTopic(name, partition_count, 1, config=dict(configs or {}))
        admin = self._admin()  # the future is cancelled when its client is collected
        created = admin.create_topics([topic], operation_timeout=CALL_TIMEOUT_S)
        created[name].result(timeout=CALL_TIMEOUT_S)

    def set_configs(self, kind: ResourceType, name: str, configs: Mapping[str, str]) -> None:
        """Set configs of a topic, a group or a broker; the others stay as they are.

        Raises:
            KafkaException: as the broker answered.
        """
        entries = [
            ConfigEntry(config, value, incremental_operation=AlterConfigOpType.SET)
            for config, value in configs.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        admin = self._admin()  # the future is cancelled when its client is collected
        admin.incremental_alter_configs([resource])[resource].result(CALL_TIMEOUT_S)

    def partitions(self, topic: str) -> list[int]:
        """Return the topic's partitions in order."""
        metadata = self._admin().list_topics(topic, timeout=CALL_TIMEOUT_S)
        return sorted(metadata.topics[topic].partitions)

    def leader(self, topic: str, partition: int) -> tuple[str, int]:
        """Return host and port of the broker that serves a partition."""
        metadata = self._admin().list_topics(topic, timeout=CALL_TIMEOUT_S)
        broker = metadata.brokers[metadata.topics[topic].partitions[partition].leader]
        return str(broker.host), broker.port

    def record_counts(self, topic: str) -> dict[int, int]:
        """Return how many offsets each partition holds, by its watermarks."""
        consumer = self._consumer()
        try:
            watermarks = {
                partition: consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=CALL_TIMEOUT_S
                )
                for partition in self.partitions(topic)
            }
        finally:
            consumer.close()
        return {partition: high - low for partition, (low, high) in watermarks.items()}

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Return the first offset at or after a time; -1 if there is none."""
        consumer = self._consumer()
        try:
            (found,) = consumer.offsets_for_times(
                [TopicPartition(topic, partition, timestamp_ms)], timeout=CALL_TIMEOUT_S
            )
        finally:
            consumer.close()
        if found.error:
            raise KafkaException(found.error)
        offset: int = found.offset
        return offset

    def produce(self, topic: str, records: Iterable[SentRecord], *, codec: str = "none") -> None:
        """Send records with idempotence and acks=all; every delivery report must be good.

        Raises:
            KafkaException: some record was refused or not acknowledged.
        """
        settings = {"enable.idempotence": True, "compression.type": codec, "linger.ms": 20}
        producer = Producer({**self._common, **settings})
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        for record in records:
            arguments = _produce_arguments(record)
            while True:
                try:
                    producer.produce(topic, on_delivery=delivered, **arguments)
                    break
                except BufferError:  # its queue is full: let it send
                    producer.poll(QUEUE_FULL_POLL_S)
        unsent = producer.flush(CALL_TIMEOUT_S)
        if failures:
            raise KafkaException(failures[0])
        assert unsent == 0, f"{unsent} records were not acknowledged in {CALL_TIMEOUT_S} s"

    def consume(self, topic: str) -> list[ConsumedRecord]:
        """Read all partitions from the beginning to their ends, without a group.

        Raises:
            KafkaException: as the consumer reported.
        """
        consumer = self._consumer({"enable.partition.eof": True})
        unfinished = set(self.partitions(topic))
        consumer.assign(
            [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in unfinished]
        )
        records: list[ConsumedRecord] = []
        try:
            heard = time.monotonic()
            while unfinished:
                messages = consumer.consume(10_000, timeout=BATCH_TIMEOUT_S)
                heard = time.monotonic() if messages else heard
                silence = time.monotonic() - heard
                assert silence < CALL_TIMEOUT_S, f"nothing comes; not at the end: {unfinished}"
                for message in messages:
                    if error := message.error():
                        if error.code() != KafkaError._PARTITION_EOF:
                            raise KafkaException(error)
                        unfinished.discard(message.partition())
                    else:
                        records.append(record_of_confluent(message))
        finally:
            consumer.close()
        return records

    @property
    def _common(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "client.id": self.client_id}

    def _admin(self) -> AdminClient:
        return AdminClient(self._common)

    def _consumer(self, settings: Mapping[str, Any] | None = None) -> Consumer:
        return Consumer(
            {
                **self._common,
                "group.id": "assigned-by-hand",  # librdkafka asks for one; assign() never joins it
                "enable.auto.commit": False,
                **(settings or {}),
            }
        )


def _produce_arguments(record: SentRecord) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "key": record.key,
        "value": record.value,
        "headers": list(record.headers),
    }
    if record.timestamp_ms is not None:
        arguments["timestamp"] = record.timestamp_ms
    return arguments


def record_of_confluent(message: Message) -> ConsumedRecord:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    timestamp_type, timestamp_ms = message.timestamp()
    assert timestamp_type == TIMESTAMP_CREATE_TIME, f"offset {offset}: not CreateTime"
    headers: list[Any] = list(message.headers() or ())
    return ConsumedRecord(
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        key=message.key(),
        value=message.value(),
        headers=tuple(headers),
    )
