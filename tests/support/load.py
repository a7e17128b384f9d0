"""A producer and a consumer that work while brokers come and go; what they saw is checked after."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition


@dataclass(slots=True)
class Load:
    """Numbered records to all partitions of a topic, and the same read back as they come.

    Attributes:
        sent: how many were given to the producer.
        acknowledged: (partition, offset) -> number, by delivery reports.
        errors: of delivery reports; a client that retries should have none.
        read: (partition, offset) -> number, as the consumer saw them.
        told: errors that the consumer reported.
    """

    bootstrap: str
    topic: str
    partition_count: int
    records_per_s: int = 300
    sent: int = 0
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    read: dict[tuple[int, int], int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Produce and consume for the length of a block, then until all is acked and read."""
        stop, all_sent = threading.Event(), threading.Event()
        producing = threading.Thread(target=self._produce, args=(stop,))
        consuming = threading.Thread(target=self._consume, args=(all_sent,))
        producing.start()
        consuming.start()
        try:
            yield self
        finally:
            stop.set()
            producing.join()
            all_sent.set()  # only now it is known how much there is to read
            consuming.join()

    def wait_for_acknowledgements(self, count: int, timeout_s: float = 120.0) -> None:
        """Wait until `count` more records are acknowledged."""
        wanted = len(self.acknowledged) + count
        deadline = time.monotonic() + timeout_s
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"no progress in {timeout_s} s: {self.errors}"
            time.sleep(0.01)

    def check(self) -> None:
        """Every record was acknowledged, and is in the log once, where the acknowledgement said."""
        assert self.errors == []
        assert sorted(self.acknowledged.values()) == list(range(self.sent))
        unread = {at: self.acknowledged[at] for at in self.acknowledged.keys() - self.read.keys()}
        assert not unread, f"{len(unread)} not read, from {sorted(unread)[:8]}: {self.told[-8:]}"
        assert self.read == self.acknowledged

    def _produce(self, stop: threading.Event) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
        }
        producer = Producer(settings)

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.errors.append(str(error))
                return
            number = int(message.value())
            self.acknowledged[message.partition(), message.offset()] = number

        while not stop.is_set():
            producer.produce(
                self.topic,
                b"%d" % self.sent,
                partition=self.sent % self.partition_count,
                on_delivery=delivered,
            )
            self.sent += 1
            producer.poll(1 / self.records_per_s)
        if producer.flush(60):
            self.errors.append("not all records were acknowledged in 60 s")

    def _consume(self, all_sent: threading.Event) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "assigned-by-hand",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # who is told to jump is to say so
            "log_level": 0,
        }
        consumer = Consumer(settings)
        partitions = range(self.partition_count)
        consumer.assign([TopicPartition(self.topic, one, OFFSET_BEGINNING) for one in partitions])
        deadline = float("inf")
        while time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                self.told.append(f"{message.topic()}[{message.partition()}]: {message.error()}")
            elif message is not None:
                at = (message.partition() or 0, message.offset() or 0)
                assert at not in self.read, f"read twice: {at}"
                self.read[at] = int(message.value() or b"")
            if all_sent.is_set():
                deadline = min(deadline, time.monotonic() + 60)
                if len(self.read) >= self.sent:
                    break
        consumer.close()
