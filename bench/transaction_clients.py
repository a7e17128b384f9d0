"""A transactional producer and a reader of committed records, for bench/transactions.py."""

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

CALL_S: Final = 30.0
POLL_S: Final = 0.1
FULL_QUEUE_S: Final = 0.01


class Transactions:
    """A transactional producer; every call raises KafkaException as librdkafka does."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self._topic = topic
        self._partition_count = partition_count
        self._failures: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"bench-{uuid.uuid4().hex[:8]}",
                "linger.ms": 5,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(CALL_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, values: Sequence[bytes]) -> None:
        """Put records into the producer's queue, partition after partition."""
        for number, value in enumerate(values):
            while not self._queued(number % self._partition_count, value):
                self._producer.poll(FULL_QUEUE_S)

    def flush(self) -> None:
        """Wait until all records are acknowledged."""
        self._producer.flush(CALL_S)
        if self._failures:
            raise KafkaException(self._failures[0])

    def commit(self) -> None:
        while True:
            try:
                self._producer.commit_transaction(CALL_S)
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
            else:
                return

    def _queued(self, partition: int, value: bytes) -> bool:
        try:
            self._producer.produce(
                self._topic, value, partition=partition, on_delivery=self._delivered
            )
        except BufferError:
            return False
        return True

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(error)


@contextmanager
def reading(bootstrap: str, topic: str, partition_count: int) -> Iterator[list[float]]:
    """Read committed records in a thread; give the seconds that each was on its way."""
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "assigned-by-hand",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign(
        [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partition_count)]
    )
    latencies_s: list[float] = []
    stopping = threading.Event()

    def read() -> None:
        while not stopping.is_set():
            message = consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                latencies_s.append(time.monotonic() - float(message.value()))

    thread = threading.Thread(target=read, name="reader")
    thread.start()
    try:
        yield latencies_s
    finally:
        stopping.set()
        thread.join()
        consumer.close()
