"""The log that Spark is measured on: a broker of its own, and what its processes cost."""

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg
import psutil
from confluent_kafka import KafkaException, Producer

from bench.results import MeasurementFailed
from spark.log_location import LogLocation
from tests.support.broker import BrokerProcess, start_broker

BUILD_S: Final = 600.0
GLANCE_S: Final = 0.2
QUIET_S: Final = 20.0
QUIET_CPU_S: Final = 0.03  # in a second
FLUSH_S: Final = 120.0
BATCH: Final = 2_000
VALUES: Final = 10_000
UNBUILT: Final = """
SELECT coalesce(sum(p.high_watermark - p.built_offset), 0)
FROM streamhouse_internal.partitions AS p JOIN streamhouse_internal.topics AS t USING (topic_id)
WHERE t.name = $1
"""
UPKEEP: Final = {
    "STREAMHOUSE_UPKEEP__BUILD_INTERVAL_MS": "500",
    "STREAMHOUSE_UPKEEP__SEGMENT_AGE_MS": "2000",
}
NO_UPKEEP: Final = {"STREAMHOUSE_UPKEEP__ENABLED": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """Seconds of CPU, of processes with all that they have started."""

    broker_s: float
    postgres_s: float
    spark_s: float

    def since(self, before: "Cpu") -> "Cpu":
        return Cpu(
            broker_s=self.broker_s - before.broker_s,
            postgres_s=self.postgres_s - before.postgres_s,
            spark_s=self.spark_s - before.spark_s,
        )


class MeasuredLog:
    """A broker with an embedded Postgres on a directory."""

    def __init__(self, data: Path, broker: BrokerProcess) -> None:
        self.data = data
        self._broker = broker

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    @property
    def location(self) -> LogLocation:
        return LogLocation.of({"data": str(self.data)})

    def await_built(self, topic: str) -> None:
        """Return when all records of a topic lie in segments, no more in mixed objects.

        Raises:
            MeasurementFailed: they do not in BUILD_S.
        """
        deadline_s = time.monotonic() + BUILD_S
        while (left := asyncio.run(_count(self.location.postgres, UNBUILT, topic))) > 0:
            if time.monotonic() > deadline_s:
                raise MeasurementFailed(f"{left} records are not built after {BUILD_S:.0f} s")
            time.sleep(GLANCE_S)

    def make_cold(self) -> None:
        """Start the broker again, so that it remembers no bytes, and drop them from the page cache.

        It has no upkeep from now on, whose looks around would be taken for work. The operating
        system may keep what others have mapped; nobody has.
        """
        bootstrap = self._broker.bootstrap
        self._broker.stop()
        for file in (self.data / "objects").rglob("*"):
            if file.is_file():
                _forget(file)
        self._broker = _start(self.data, bootstrap, NO_UPKEEP)
        self._await_quiet()

    def _await_quiet(self) -> None:
        """Return when the broker has done what it does after its start."""
        deadline_s = time.monotonic() + QUIET_S
        before, now = 0.0, self.cpu().broker_s
        while now - before > QUIET_CPU_S and time.monotonic() < deadline_s:
            time.sleep(1)
            before, now = now, self.cpu().broker_s

    def cpu(self) -> Cpu:
        """Return what has been used until now, by processes that are there now."""
        database = (self.data / "postgres" / "postmaster.pid").read_text().split()[0]
        postgres = _with_children(psutil.Process(int(database)))
        broker = _with_children(psutil.Process(self._broker.pid))
        jvms = [one for one in psutil.Process().children() if one.name() == "java"]
        return Cpu(
            broker_s=_seconds(broker - postgres),
            postgres_s=_seconds(postgres),
            spark_s=sum(_seconds(_with_children(jvm)) for jvm in jvms),
        )

    def stop(self) -> None:
        self._broker.stop()


@contextmanager
def measured_log(data: Path) -> Iterator[MeasuredLog]:
    """Run the broker for the length of a block."""
    log = MeasuredLog(data, _start(data, "127.0.0.1:0", UPKEEP))
    try:
        yield log
    finally:
        log.stop()


def write_events(bootstrap: str, topic: str, count: int, *, size: int, codec: str) -> int:
    """Send keyed JSON events of about `size` bytes; return the bytes of all keys and values.

    Raises:
        KafkaException: one was refused or not acknowledged.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 50,
            "batch.size": 500_000,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,
            "log_level": 0,
        }
    )
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    events = [(f"user-{n:06d}".encode(), event(n, size)) for n in range(VALUES)]
    total = 0
    for first in range(0, count, BATCH):
        chosen = [events[n % VALUES] for n in range(first, min(first + BATCH, count))]
        total += sum(len(key) + len(value) for key, value in chosen)
        unsent = [{"key": key, "value": value} for key, value in chosen]
        while unsent:
            producer.produce_batch(topic, unsent, on_delivery=delivered)
            unsent = [
                {"key": one["key"], "value": one["value"]} for one in unsent if "_error" in one
            ]
            producer.poll(GLANCE_S if unsent else 0)  # its queue is full: let it send
    if producer.flush(FLUSH_S) or failures:
        raise KafkaException(failures[0] if failures else "not acknowledged in time")
    return total


def event(number: int, size: int) -> bytes:
    """Return a JSON object of `size` bytes, or of a few more where that is too small."""
    kind = ("page_view", "click", "purchase", "sign_up")[number % 4]
    head = (
        f'{{"event_id":"{number * 2654435761 % (1 << 32):08x}","type":"{kind}","page":"/p/{number}'
    )
    return head.encode().ljust(size - 2, b"x") + b'"}'


def _start(data: Path, listen: str, settings: Mapping[str, str]) -> BrokerProcess:
    return start_broker(
        data, listen=listen, environment={**os.environ, **settings}, own_imports=True
    )


def _forget(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


async def _count(dsn: str, statement: str, topic: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval(statement, topic))
    finally:
        await connection.close()


def _with_children(process: psutil.Process) -> set[psutil.Process]:
    return {process, *process.children(recursive=True)}


def _seconds(processes: set[psutil.Process]) -> float:
    """Return what they have used, and what their children had when they ended."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue  # its parent has it by now, or will at the next look
        total += times.user + times.system + times.children_user + times.children_system
    return total
