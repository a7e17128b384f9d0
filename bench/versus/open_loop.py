"""A librdkafka producer that sends at a rate, whatever comes back, and what it sees.

Each time counts from when a record was meant to be sent: a broker that stalls is charged for all
that would have been sent meanwhile. The functions run in a process of their own (`in_process`):
what the client adds is `Observed.late_s` and what a callback waits for the interpreter, so its
garbage collector is off, callbacks have a thread of their own, and one record of a tick has one.
"""

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from bench.versus.senders import (
    PATIENCE_S,
    POLL_S,
    TICK_S,
    in_thread,
    new_producer,
    polled,
    produce_patiently,
    quiet_interpreter,
)

LEAD_S: Final = 0.05
DUE: Final = struct.Struct(">d")
FIRST: Final = DUE.pack(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """What is sent, to which topic, which is empty at the beginning.

    Attributes:
        record_bytes: of each value.
        warm_s, duration_s: how long records are sent that do not count, and then such that do.
        reading: whether a consumer in the same process reads all of it.
    """

    bootstrap: str
    topic: str
    partitions: int
    records_per_s: float = 1_000
    record_bytes: int = 100
    warm_s: float = 2.0
    duration_s: float = 8.0
    reading: bool = False


@dataclass(slots=True)
class Observed:
    """Seconds, one number for each record that counts (with more than 1,000/s: for some of them).

    Attributes:
        acknowledged_s, read_s: from the intended time to the delivery report, to the consumer.
        late_s: from the intended time to the call that sends it.
        sent: records, with those that do not count.
    """

    acknowledged_s: list[float] = field(default_factory=list)
    read_s: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    sent: int = 0


def open_loop(load: OpenLoop) -> Observed:
    """Send, and return what was seen once all is acknowledged and, if it was to be, read.

    Raises:
        KafkaException: a record was refused.
        TimeoutError: not all came back.
    """
    quiet_interpreter()
    seen = Observed()
    counted = _Counted(seen)
    with _reader(load, counted) as first_read, polled(new_producer(load.bootstrap)) as producer:
        producer.produce(load.topic, FIRST, partition=0, on_delivery=counted.note_error)
        if producer.flush(PATIENCE_S) or not first_read.wait(PATIENCE_S):
            raise TimeoutError("the first record did not come back")
        _send(load, producer, counted)
        if producer.flush(PATIENCE_S):
            raise TimeoutError("not all records were acknowledged")
        if counted.error is not None:
            raise KafkaException(counted.error)
        if load.reading:
            _wait_for(lambda: len(seen.read_s) >= len(seen.acknowledged_s))
    return seen


class _Counted:
    """Notes times of those records that count, from the threads that see them."""

    def __init__(self, seen: Observed) -> None:
        self.seen = seen
        self.from_s = float("inf")
        self.error: Any = None

    def note_error(self, error: object, _: object) -> None:
        if error is not None:
            self.error = error

    def delivered(self, due_s: float, error: object, _: object) -> None:
        now_s = time.monotonic()
        if error is not None:
            self.error = error
        elif due_s >= self.from_s:
            self.seen.acknowledged_s.append(now_s - due_s)

    def read(self, due_s: float) -> None:
        if due_s >= self.from_s:
            self.seen.read_s.append(time.monotonic() - due_s)


def _send(load: OpenLoop, producer: Any, counted: _Counted) -> None:
    """Send the records of each tick at its time; the last of them is the one that is watched."""
    tick_s = max(TICK_S, 1 / load.records_per_s)
    padding = bytes(max(load.record_bytes - DUE.size, 0))
    others = FIRST + padding
    began_s = time.monotonic() + LEAD_S
    counted.from_s = began_s + load.warm_s
    seen = counted.seen
    for tick in range(round((load.warm_s + load.duration_s) / tick_s)):
        due_s = began_s + tick * tick_s
        until = round((tick + 1) * tick_s * load.records_per_s)
        if (ahead_s := due_s - time.monotonic()) > 0:
            time.sleep(ahead_s)
        if due_s >= counted.from_s:
            seen.late_s.append(time.monotonic() - due_s)
        while seen.sent < until - 1:
            produce_patiently(producer, load.topic, others, seen.sent % load.partitions, None)
            seen.sent += 1
        watched = DUE.pack(due_s) + padding
        delivered = partial(counted.delivered, due_s)
        produce_patiently(producer, load.topic, watched, seen.sent % load.partitions, delivered)
        seen.sent += 1


@contextmanager
def _reader(load: OpenLoop, counted: _Counted) -> Iterator[threading.Event]:
    """Read the topic for the length of a block; the event says that its first record was read."""
    first_read, stop = threading.Event(), threading.Event()
    if not load.reading:
        first_read.set()
        yield first_read
        return
    properties = {
        "bootstrap.servers": load.bootstrap,
        "group.id": "assigned-by-hand",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(properties)
    places = [TopicPartition(load.topic, at, OFFSET_BEGINNING) for at in range(load.partitions)]
    consumer.assign(places)

    def read() -> None:
        while not stop.is_set():
            message = consumer.poll(POLL_S)
            if message is None or message.error() is not None:
                continue  # librdkafka goes on by itself; what never comes is missed at the end
            (due_s,) = DUE.unpack_from(message.value() or FIRST)
            first_read.set()
            if due_s:
                counted.read(due_s)

    with in_thread(read, stop):
        yield first_read
    consumer.close()


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError("not all records were read")
        time.sleep(TICK_S)
