"""librdkafka producers in Python that disturb what they measure as little as they can.

The functions run in a process of their own (bench/backfill_clients.py's `in_process`).
"""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

TICK_S: Final = 0.001
POLL_S: Final = 0.1
PATIENCE_S: Final = 30.0
SWITCH_S: Final = 0.0002
"""How long one thread may keep the interpreter from another; 5 ms would be what is measured."""

QUEUE_KIB: Final = 64 * 1024


def synchronous(bootstrap: str, topic: str, warm_s: float, duration_s: float) -> list[float]:
    """Send one record when the one before is acknowledged; return the seconds that each took."""
    quiet_interpreter()
    producer = new_producer(bootstrap)
    took_s: list[float] = []
    failures: list[object] = []
    done = threading.Event()

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)
        done.set()

    counted_from_s = time.monotonic() + warm_s
    while (sent_s := time.monotonic()) < counted_from_s + duration_s:
        done.clear()
        producer.produce(topic, b"x" * 100, partition=0, on_delivery=delivered)
        while not done.is_set():
            producer.poll(POLL_S)
        if failures:
            raise KafkaException(failures[0])
        if sent_s >= counted_from_s:
            took_s.append(time.monotonic() - sent_s)
    return took_s


def maximum(
    bootstrap: str, topic: str, partitions: int, record_bytes: int, duration_s: float
) -> float:
    """Send as fast as they are taken; return records per second, to the last acknowledgement.

    Raises:
        KafkaException: a record was refused.
        TimeoutError: not all were acknowledged.
    """
    quiet_interpreter()
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    with polled(new_producer(bootstrap)) as producer:
        value = bytes(record_bytes)
        began_s = time.monotonic()
        sent = 0
        while time.monotonic() < began_s + duration_s:
            for number in range(1, 101):
                produce_patiently(
                    producer, topic, value, sent % partitions, delivered if number == 100 else None
                )
                sent += 1
        if producer.flush(PATIENCE_S):
            raise TimeoutError("not all records were acknowledged")
        took_s = time.monotonic() - began_s
    if failures:
        raise KafkaException(failures[0])
    return sent / took_s


@contextmanager
def polled(producer: Any) -> Iterator[Any]:
    """Take in delivery reports, in a thread of their own, for the length of a block."""
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            producer.poll(POLL_S)

    with in_thread(poll, stop):
        yield producer


@contextmanager
def in_thread(work: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def new_producer(bootstrap: str) -> Any:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "queue.buffering.max.kbytes": QUEUE_KIB,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )


def quiet_interpreter() -> None:
    gc.disable()
    sys.setswitchinterval(SWITCH_S)


def produce_patiently(
    producer: Any, topic: str, value: bytes, partition: int, delivered: Callable[..., None] | None
) -> None:
    while True:
        try:
            # without a callback a record costs the interpreter nothing when it is acknowledged
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
        except BufferError:
            time.sleep(TICK_S)
        else:
            return
