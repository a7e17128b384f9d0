"""A broker whose Postgres is lost, and the commands that work without one."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.clients.confluent import CALL_TIMEOUT_S, Confluent
from tests.crash.processes import KillableBroker, kill_postgres, killable_broker, until
from tests.streamctl.forks import run as run_forked

REPOSITORY: Final = Path(__file__).parents[2]
COMMAND: Final = (sys.executable, "-c", "from streamctl.main import main; main()")
COMMAND_S: Final = 120.0
SEGMENT_ROWS: Final = 6
BUILDS: Final = {
    "STREAMHOUSE_UPKEEP__BUILD_INTERVAL_MS": "200",
    "STREAMHOUSE_UPKEEP__SEGMENT_ROWS": str(SEGMENT_ROWS),
    "STREAMHOUSE_UPKEEP__SWEEP_INTERVAL_MS": "500",
    "STREAMHOUSE_UPKEEP__DELETE_DELAY_MS": "300",
}
Acknowledged = dict[tuple[str, int, int], bytes]


@dataclass(frozen=True, slots=True)
class Said:
    """What a command left behind."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def streamctl(*arguments: str) -> Said:
    """Run a command as people do."""
    ended = run_forked(arguments, stdin=b"", environment=os.environ, timeout_s=COMMAND_S)
    return Said(ended.exit_code, ended.out.decode(), ended.err)


@contextmanager
def building_broker(data: Path, *arguments: str) -> Iterator[KillableBroker]:
    """Run a broker that builds what has six rows, soon."""
    with killable_broker(data, *arguments, environment=BUILDS) as broker:
        yield broker


def lose_postgres(broker: KillableBroker) -> None:
    """End broker and Postgres as a crash does; the database is gone."""
    broker.process.kill()
    kill_postgres(broker.embedded_postgres)
    broker.embedded_postgres.rename(broker.embedded_postgres.with_name("lost"))


def send(
    broker: KillableBroker,
    topic: str,
    values: list[bytes],
    *,
    partition: int = 0,
    settings: Mapping[str, Any] | None = None,
    transactions: list[bool] | None = None,
    flush_every: int = 5,
) -> Acknowledged:
    """Produce values; return what was acknowledged, by topic, partition and offset.

    Args:
        broker: where to.
        topic: where to.
        values: in their order; each `flush_every` of them are waited for.
        partition: where to.
        settings: of the client.
        transactions: whether each round of `flush_every` values is a transaction that is committed;
            None: there are no transactions. An end that is not there leaves the last one open.
    """
    acknowledged: Acknowledged = {}
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
        else:
            offset = message.offset()
            assert offset is not None
            acknowledged[topic, partition, offset] = message.value() or b""

    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **(settings or {})})
    if transactions is not None:
        producer.init_transactions(CALL_TIMEOUT_S)
    for number, at in enumerate(range(0, len(values), flush_every)):
        if transactions is not None:
            producer.begin_transaction()
        for value in values[at : at + flush_every]:
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
        assert producer.flush(CALL_TIMEOUT_S) == 0
        if transactions is not None and number < len(transactions):
            if transactions[number]:
                producer.commit_transaction(CALL_TIMEOUT_S)
            else:
                producer.abort_transaction(CALL_TIMEOUT_S)
    assert not failures, failures[0]
    return acknowledged


def read(
    broker: KillableBroker, topic: str, partition: int = 0, *, committed: bool = False
) -> Acknowledged:
    """Return all records of a partition by topic, partition and offset; they have to ascend."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reading",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "auto.offset.reset": "error",
        }
    )
    found: Acknowledged = {}
    try:
        low = until(lambda: _log_start(consumer, topic, partition), "where the log begins")
        consumer.assign([TopicPartition(topic, partition, low)])
        last = -1
        while True:
            message = consumer.poll(CALL_TIMEOUT_S)
            assert message is not None, "nothing came"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            offset = message.offset()
            assert offset is not None
            assert offset > last
            last = offset
            found[topic, partition, offset] = message.value() or b""
    finally:
        consumer.close()


def _log_start(consumer: Consumer, topic: str, partition: int) -> int | None:
    """Return the first offset; None if librdkafka is changing its own picture of the cluster."""
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), CALL_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._DESTROY_BROKER:
            raise
        return None
    return int(low)


def end_of(broker: KillableBroker, topic: str, partition: int = 0) -> int:
    """Return the high watermark."""
    counts = Confluent(bootstrap=broker.bootstrap).record_counts(topic)
    return counts[partition]
