"""Produce and consume once with stock clients, and what that makes: rates and CPU."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from bench.cluster import Cluster
from bench.results import Figures, MeasurementFailed
from bench.versus.clients import (
    Ran,
    java_consume,
    java_consumed_s,
    java_produce,
    java_produced_s,
    kcat_consume,
    kcat_produce,
    run_clients,
    run_reader,
)
from bench.versus.payload import MB, Payload
from bench.versus.running import Running, Usage

GB: Final = 1_000_000_000
ANSWER_S: Final = 120.0
GLANCE_S: Final = 0.1
PRIMED_MB: Final = 2_800
"""More than twice what a case writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Producing:
    """How something is sent.

    Attributes:
        properties: of the client, by the names that librdkafka and Java share.
        producers: processes at the same time; each sends its part.
    """

    payload: Payload
    partitions: int = 6
    producers: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)


def produce(running: Running, load: Producing) -> tuple[str, Figures]:
    """Send a payload with kcat; return its new topic, and how fast it was.

    Seconds are those of kcat from start to end (it ends with the last acknowledgement) without
    those that it takes for one record of the same topic, just before (the better of two times).
    """
    topic = Cluster(running.bootstrap).new_topic(load.partitions)
    count = load.payload.records // load.producers

    def all_send(each: int) -> Ran:
        command = kcat_produce(running.bootstrap, topic, load.payload.file, each, load.properties)
        return run_clients([command] * load.producers)

    start = min((all_send(1) for _ in range(2)), key=lambda ran: ran.took_s)
    before = running.usage()
    ran = all_send(count).without(start)
    records = count * load.producers
    return topic, _figures(ran, running.usage().since(before), records, load.payload.record_bytes)


def produce_by_java(running: Running, load: Producing) -> Figures:
    """Send a payload with ProducerPerformance, whose own seconds count; its CPU has its start."""
    topic = Cluster(running.bootstrap).new_topic(load.partitions)
    records = load.payload.records
    before = running.usage()
    lines = load.payload.different
    command = java_produce(running.bootstrap, topic, lines, records, load.properties)
    ran = run_clients([command])
    own = Ran(took_s=java_produced_s(ran.output), cpu_s=ran.cpu_s, output="")
    return _figures(own, running.usage().since(before), records, load.payload.record_bytes)


def consume(
    running: Running, topic: str, *, records: int, record_bytes: int, times: int = 1
) -> Figures:
    """Read a topic with kcat, a few times, and put it nowhere.

    Seconds are those from the first records to the last (`run_reader`).
    """
    before = running.usage()
    command = kcat_consume(running.bootstrap, topic, records)
    runs = [run_reader(command, records) for _ in range(times)]
    ran = Ran(
        took_s=sum(run.took_s for run in runs), cpu_s=sum(run.cpu_s for run in runs), output=""
    )
    return _figures(ran, running.usage().since(before), records * times, record_bytes)


def consume_by_java(running: Running, topic: str, *, records: int, record_bytes: int) -> Figures:
    """Read a topic with ConsumerPerformance; the time that it says it fetched counts."""
    before = running.usage()
    ran = run_clients([java_consume(running.bootstrap, topic, records)])
    own = Ran(took_s=java_consumed_s(ran.output), cpu_s=ran.cpu_s, output="")
    return _figures(own, running.usage().since(before), records, record_bytes)


def _figures(ran: Ran, used: Usage, records: int, record_bytes: int) -> Figures:
    size = records * record_bytes
    return {
        "mb_per_s": size / MB / ran.took_s,
        "records_per_s": records / ran.took_s,
        "cpu_s_per_gb": used.broker_cpu_s / size * GB,
        "client_cpu_s_per_gb": ran.cpu_s / size * GB,
        "memory_mib": used.broker_memory_mib,
    }


def restart(running: Running, topic: str) -> None:
    """Kill the broker, start it again, and return when the topic has all its leaders."""
    cluster = Cluster(running.bootstrap)
    partitions = len(cluster.leaders(topic))
    running.kill_broker()
    running.start_again()
    deadline_s = time.monotonic() + ANSWER_S
    while True:
        try:
            if len(Cluster(running.bootstrap).leaders(topic)) == partitions:
                return
        except (KafkaException, KeyError):
            pass  # it does not listen yet, or has not loaded the topic
        if time.monotonic() > deadline_s:
            raise MeasurementFailed(f"no answer {ANSWER_S:.0f} s after a restart")
        time.sleep(GLANCE_S)


def make_cold(running: Running) -> None:
    """Drop what the contender keeps from the page cache."""
    os.sync()  # only what is written to disk can be dropped
    for file in running.home.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def prime(folder: Path, size_mb: int = PRIMED_MB) -> None:
    """Fill some page cache and free it.

    A virtual machine may give freed memory back to its host within seconds; touching it again
    costs 2 CPU seconds per GB, and a case's speed would hang on whether it has to.
    """
    file = folder / "primed"
    block = bytes(MB)
    try:
        with file.open("wb", buffering=0) as output:
            for _ in range(size_mb):
                output.write(block)
    finally:
        file.unlink(missing_ok=True)
