"""Topics as a test wants them: which record lies in which partition, when, and in what state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, Row

CALL_S: Final = 30.0
LONG_TRANSACTIONS: Final[Mapping[str, int]] = {"transaction.timeout.ms": 600_000}
"""Of what is left open while Spark reads, which may take a minute."""

COLUMNS: Final = ("partition", "offset", "CAST(value AS STRING) AS value")
At = tuple[int, int, str]
"""Partition, offset and value of a record."""


@dataclass(slots=True, kw_only=True)
class KafkaLogs:
    """Writes topics of one cluster.

    Attributes:
        bootstrap: HOST:PORT.
    """

    bootstrap: str
    admin: AdminClient = field(init=False)
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminClient(self._common)
        self.producer = self._producer()

    def create(self, topic: str, partition_count: int = 1, **configs: str) -> None:
        """Create a topic; configs have _ for each dot."""
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        created = self.admin.create_topics([NewTopic(topic, partition_count, 1, config=dotted)])
        created[topic].result(CALL_S)

    def write(
        self,
        topic: str,
        *values: str,
        partition: int = 0,
        timestamp_ms: int = 0,
        **more: Any,
    ) -> None:
        """Write records into a partition; a value is `key=value`, or a value without a key."""
        _write(self.producer, topic, values, partition, timestamp_ms, more)

    def transact(self, topic: str, *values: str, commit: bool) -> None:
        """Write records into partition 0 in a transaction that is committed or aborted."""
        producer = self.begin(topic, *values)
        if commit:
            producer.commit_transaction(CALL_S)
        else:
            producer.abort_transaction(CALL_S)

    def begin(self, topic: str, *values: str) -> Producer:
        """Return a producer with an open transaction that has written these into partition 0."""
        name = {"transactional.id": f"transactions of {topic}"}
        producer = self._producer({**name, **LONG_TRANSACTIONS})
        producer.init_transactions(CALL_S)
        producer.begin_transaction()
        _write(producer, topic, values, 0, 0, {})
        return producer

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Make `offset` the first one of a partition."""
        place = TopicPartition(topic, partition, offset)
        self.admin.delete_records([place])[place].result(CALL_S)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic], operation_timeout=CALL_S)[topic].result(CALL_S)

    def _producer(self, settings: Mapping[str, str | int] | None = None) -> Producer:
        common = {"enable.idempotence": True, "linger.ms": 2}
        return Producer({**self._common, **common, **(settings or {})})

    @property
    def _common(self) -> dict[str, str | int | float | bool]:
        return {"bootstrap.servers": self.bootstrap}


def _write(
    producer: Producer,
    topic: str,
    values: tuple[str, ...],
    partition: int,
    timestamp_ms: int,
    more: Mapping[str, Any],
) -> None:
    def delivered(error: KafkaError | None, _message: Message) -> None:
        assert error is None, error

    for text in values:
        key, equals, value = text.rpartition("=")
        producer.produce(
            topic,
            value,
            key if equals else None,
            partition=partition,
            timestamp=timestamp_ms,
            on_delivery=delivered,
            **more,
        )
    assert producer.flush(CALL_S) == 0


def at(frame: DataFrame) -> list[At]:
    """Return where which value is, in order."""
    return sorted(tuple(row) for row in frame.selectExpr(*COLUMNS).collect())


@dataclass(slots=True)
class Batches:
    """What a streaming query gave to foreachBatch, by the batch's id."""

    rows: dict[int, list[Row]] = field(default_factory=dict)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.rows[batch_id] = frame.selectExpr(*COLUMNS).collect()

    def at(self) -> list[At]:
        """Return where which value was, of all batches, in order."""
        return sorted(tuple(row) for rows in self.rows.values() for row in rows)
