"""The load: one idempotent producer that never gives up, and readers that look all the time."""

import random
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Condition, Event
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.crash.ledger import Fault, Ledger, Position
from tests.crash.payload import encode
from tests.crash.readers import Readers

TOPIC: Final = "crash"
POLL_S: Final = 0.005
FLUSH_S: Final = 120.0
CALL_S: Final = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much is sent.

    Attributes:
        max_unacknowledged: records given to the producer before it waits for acknowledgements.
        request_timeout_ms: after which the broker answers REQUEST_TIMED_OUT and the client sends
            the same batch again; short ones make many duplicates while an upload hangs.
    """

    partitions: int = 4
    records_per_s: int = 1500
    max_unacknowledged: int = 20_000
    request_timeout_ms: int = 30_000


@dataclass(slots=True)
class Mending:
    """Attributes: began_s is when the cause of a fault ended; for a crash, at once."""

    began_s: float

    def begins(self) -> None:
        self.began_s = time.monotonic()


class Workload:
    """A running load; made by `running_load`."""

    def __init__(self, bootstrap: str, load: Load, ledger: Ledger) -> None:
        self.ledger = ledger
        self._load = load
        self._acknowledged = Condition()
        self._producer = Producer(_settings(bootstrap, load, self._hear))

    def send(self, stop: Event, abandon: Event) -> None:
        """Send at the load's rate until `stop`, then wait for what is not acknowledged."""
        began_s = time.monotonic()
        values = count()
        sent = 0
        while not stop.is_set():
            due = int((time.monotonic() - began_s) * self._load.records_per_s)
            while sent < due and len(self._producer) < self._load.max_unacknowledged:
                self._send(next(values))
                sent += 1
            self._producer.poll(POLL_S)
        deadline = time.monotonic() + FLUSH_S
        while len(self._producer) and time.monotonic() < deadline and not abandon.is_set():
            self._producer.poll(POLL_S)

    def _send(self, value: int) -> None:
        partition = value % self._load.partitions
        self.ledger.sent[value] = partition

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._delivered(value, error, message)

        self._producer.produce(
            TOPIC, value=encode(value), partition=partition, on_delivery=delivered
        )

    def _delivered(self, value: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.ledger.refused[value] = str(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        with self._acknowledged:
            if offset is None:
                self.ledger.acknowledge_somewhere(value, time.monotonic())
            else:
                self.ledger.acknowledge(value, Position(partition, offset), time.monotonic())
            self._acknowledged.notify_all()

    def _hear(self, error: KafkaError) -> None:
        if error.fatal():
            self.ledger.complaints.append(f"producer: {error}")

    def await_ack(self, after_s: float, timeout_s: float = CALL_S) -> None:
        """Return once a record was acknowledged after the moment `after_s`.

        Raises:
            AssertionError: none was in time.
        """
        with self._acknowledged:
            came = self._acknowledged.wait_for(
                lambda: self.ledger.first_ack_after(after_s) is not None, timeout_s
            )
        assert came, f"no acknowledgement in {timeout_s} s; {self.ledger.summary()}"

    @contextmanager
    def fault(self, name: str) -> Iterator[Mending]:
        """Write down a fault: it begins with the block, at whose end what was broken is back.

        When the block is left, a record was acknowledged after that.
        """
        began_s = time.monotonic()
        mending = Mending(began_s)
        yield mending
        fault = Fault(name, began_s, mending.began_s, time.monotonic())
        self.ledger.faults.append(fault)
        self.await_ack(fault.up_s)


def _settings(bootstrap: str, load: Load, hear: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "acks": "all",
        "message.timeout.ms": 0,  # never gives up
        "request.timeout.ms": load.request_timeout_ms,
        "linger.ms": 5,
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 200,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "error_cb": hear,
        "log_level": 0,
    }


def create_topic(bootstrap: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(TOPIC, partitions, 1)], operation_timeout=CALL_S)
    created[TOPIC].result(timeout=CALL_S)


@contextmanager
def running_load(bootstrap: str, load: Load, *, seed: int) -> Iterator[Workload]:
    """Run a load for the length of a block, in which faults happen; all is mended at its end.

    After the block the ledger is complete: flushed, and read from the beginning by a fresh client.
    """
    create_topic(bootstrap, load.partitions)
    ledger = Ledger()
    workload = Workload(bootstrap, load, ledger)
    readers = Readers(bootstrap, TOPIC, load.partitions, ledger)
    sending_ends, reading_ends, abandon = Event(), Event(), Event()
    with ThreadPoolExecutor(4) as threads:
        sender = threads.submit(workload.send, sending_ends, abandon)
        looking: list[Future[None]] = [
            threads.submit(readers.follow, reading_ends, abandon),
            threads.submit(readers.read_again, reading_ends, abandon, random.Random(seed)),
            threads.submit(readers.sample_ends, reading_ends),
        ]
        try:
            workload.await_ack(0)
            yield workload
            sending_ends.set()
            sender.result()
            reading_ends.set()
            for one in looking:
                one.result()
        except AssertionError as missed:  # what became of the sender says more
            if sender.done() and (error := sender.exception()) is not None:
                raise error from missed
            raise
        finally:
            for event in (sending_ends, reading_ends, abandon):
                event.set()
    readers.read_at_the_end()
    ledger.place_acknowledged()
