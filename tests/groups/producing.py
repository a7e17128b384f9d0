"""A producer that writes numbered records all the time, and knows where each of them is."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

POLL_S: Final = 0.005
FLUSH_S: Final = 60.0
RATE: Final = 600


class NumberedRecords:
    """Records whose values are 0, 1, 2 …; made by `numbered_records`.

    Attributes:
        places: value of each acknowledged record, by partition and offset.
    """

    def __init__(self, bootstrap: str, topic: str, partition_count: int, rate: int) -> None:
        self.places: dict[tuple[int, int], str] = {}
        self._topic = topic
        self._partition_count = partition_count
        self._rate = rate
        self._refused: list[str] = []
        self._stop = Event()
        self._abandon = Event()
        self._thread = Thread(target=self._send)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 0,  # never gives up: a killed broker comes back
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> dict[int, int]:
        """Stop sending; return how many records each partition has.

        Raises:
            AssertionError: some record was refused, or not acknowledged in time.
        """
        self._stop.set()
        self._thread.join()
        assert not self._refused, self._refused[:3]
        assert len(self._producer) == 0, f"{len(self._producer)} records are not acknowledged"
        return self.record_counts()

    def end(self) -> None:
        """Leave no thread, even where the broker is gone and acknowledges nothing."""
        self._stop.set()
        self._abandon.set()
        self._thread.join()

    def record_counts(self) -> dict[int, int]:
        counts = dict.fromkeys(range(self._partition_count), 0)
        for partition, _ in list(self.places):
            counts[partition] += 1
        return counts

    def _send(self) -> None:
        began_s = time.monotonic()
        for number in count():
            while number > (time.monotonic() - began_s) * self._rate:
                if self._stop.is_set():
                    break
                self._producer.poll(POLL_S)
            if self._stop.is_set():
                break
            partition = number % self._partition_count
            self._producer.produce(
                self._topic, value=str(number), partition=partition, on_delivery=self._delivered
            )
        deadline = time.monotonic() + FLUSH_S
        while len(self._producer) and time.monotonic() < deadline and not self._abandon.is_set():
            self._producer.poll(POLL_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(str(error))
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        self.places[partition, offset] = value.decode()


@contextmanager
def numbered_records(
    bootstrap: str, topic: str, partition_count: int, *, rate: int = RATE
) -> Iterator[NumberedRecords]:
    """Send `rate` records a second during a block, or until `stop` is called in it."""
    records = NumberedRecords(bootstrap, topic, partition_count, rate)
    records.start()
    try:
        yield records
    finally:
        records.end()
