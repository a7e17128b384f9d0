"""Clients of bench/backfill.py, each in a process of its own: Python runs one thread at a time."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

POLL_S: Final = 0.1
BATCH: Final = 10_000
PATIENCE_S: Final = 60.0
TAIL_PARTITION: Final = 0
NICE: Final = 10


def in_process(work: Callable[..., Any], *arguments: object) -> "Future[Any]":
    """Run a function of this module in a new process; its result comes with the future."""
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    future: Future[Any] = pool.submit(work, *arguments)
    pool.shutdown(wait=False)
    return future


def load(bootstrap: str, topic: str, partition_count: int, total_bytes: int, size: int) -> float:
    """Write records that do not compress, evenly; return the seconds until all are acknowledged."""
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.size": 900_000,
            "queue.buffering.max.kbytes": 128 * 1024,
            "log_level": 0,
        }
    )
    began_s = time.monotonic()
    noise = os.urandom(size + 4096)
    for number in range(total_bytes // size):
        at = number % 4096
        while True:
            try:
                producer.produce(
                    topic,
                    noise[at : at + size],
                    partition=number % partition_count,
                    on_delivery=delivered,
                )
            except BufferError:
                producer.poll(POLL_S)
            else:
                break
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(PATIENCE_S)
    if failures:
        raise KafkaException(failures[0])
    return time.monotonic() - began_s


def read_from_start(
    bootstrap: str, topic: str, partition_count: int, max_bytes: int
) -> tuple[int, float]:
    """Read values from the beginning on until there are `max_bytes`, or all; bytes and seconds."""
    os.nice(NICE)  # on a machine of its own it would take nothing from the tail's clients
    consumer = _consumer(bootstrap)
    partitions = [TopicPartition(topic, at, OFFSET_BEGINNING) for at in range(partition_count)]
    ends = {
        at: consumer.get_watermark_offsets(partitions[at], PATIENCE_S)[1]
        for at in range(partition_count)
    }
    left = {at for at, end in ends.items() if end}
    consumer.assign(partitions)
    began_s = time.monotonic()
    size = 0
    while left and size < max_bytes:
        for message in consumer.consume(BATCH, POLL_S):
            if message.error() is not None:
                raise KafkaException(message.error())
            size += len(message.value())
            if message.offset() + 1 >= ends[message.partition()]:
                left.discard(message.partition())
    took_s = time.monotonic() - began_s
    consumer.close()
    return size, took_s


def tail(bootstrap: str, topic: str, records_per_s: int, duration_s: float) -> list[float]:
    """Send records at a rate to one partition and read them there; seconds that each took."""
    consumer = _consumer(bootstrap)
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, TAIL_PARTITION), PATIENCE_S)
    assert low <= high
    consumer.assign([TopicPartition(topic, TAIL_PARTITION, high)])
    count = int(records_per_s * duration_s)
    latencies_s: list[float] = []

    def read() -> None:
        deadline_s = time.monotonic() + duration_s + PATIENCE_S
        while len(latencies_s) < count and time.monotonic() < deadline_s:
            message = consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                latencies_s.append(time.monotonic() - float(message.value()[:20]))

    reader = threading.Thread(target=read)
    reader.start()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
    began_s = time.monotonic()
    padding = b" " * 80
    for number in range(count):
        due_s = began_s + number / records_per_s
        while (ahead_s := due_s - time.monotonic()) > 0:
            producer.poll(ahead_s)
        value = f"{time.monotonic():020.6f}".encode() + padding
        producer.produce(topic, value, partition=TAIL_PARTITION)
    producer.flush(PATIENCE_S)
    reader.join()
    consumer.close()
    if len(latencies_s) < count:
        raise TimeoutError(f"{count - len(latencies_s)} of {count} records did not come")
    return latencies_s


def _consumer(bootstrap: str) -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "assigned-by-hand",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 8 * 1024,
            "log_level": 0,
        }
    )
