"""The input of the exactly-once test: keyed records with the numbers 0, 1, 2 …"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from tests.crash.exactly_once_settings import SOURCE_PARTITIONS, key_of

RECORDS_PER_S: Final = 60
POLL_S: Final = 0.02
FLUSH_S: Final = 180.0


class Input:
    """A producer that never gives up; made by `numbered_input`.

    Attributes:
        acknowledged: how many records are.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged = 0
        self._topic = topic
        self._sent = 0
        self._refused: list[str] = []
        self._stop = Event()
        self._thread = Thread(target=self._send, name="input")
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "request.timeout.ms": 5_000,
                "linger.ms": 5,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 200,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when all is acknowledged.

        Raises:
            AssertionError: some record was refused, or not acknowledged in FLUSH_S.
        """
        self.end()
        deadline = time.monotonic() + FLUSH_S
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.poll(POLL_S)
        assert not self._refused, self._refused[:3]
        assert self.acknowledged == self._sent

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        began_s = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - began_s) * RECORDS_PER_S)
            for number in range(self._sent, due):
                key = key_of(number)
                self._producer.produce(
                    self._topic,
                    str(number),
                    str(key),
                    partition=key % SOURCE_PARTITIONS,
                    on_delivery=self._delivered,
                )
            self._sent = max(due, self._sent)
            self._producer.poll(POLL_S)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self._refused.append(str(error))


@contextmanager
def numbered_input(bootstrap: str, topic: str) -> Iterator[Input]:
    """Send records during a block, or until `stop` is called in it."""
    records = Input(bootstrap, topic)
    records.start()
    try:
        yield records
    finally:
        records.end()
