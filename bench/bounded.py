"""Write far more than a topic may keep, through a broker with little memory: what grows?

python -m bench.bounded; it starts a broker of its own in a new folder, with a directory as store.
"""

import os
import shutil
import tempfile
import threading
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Final

import psutil
import typer
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from bench.memory_group import memory_limit, remove_memory_groups
from bench.results import Figures, MeasurementFailed, Row, show
from storage.config import MiB, UpkeepConfig
from tests.support.broker import BrokerProcess, start_broker

TOPIC: Final = "bounded"
GLANCE_S: Final = 1.0
DRAIN_S: Final = 300.0
RECORD_BYTES: Final = 1024
STOP_S: Final = 30.0
MB: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is written, and what may be kept of it.

    Attributes:
        memory_mib: of broker, upkeep and embedded Postgres together; 0 is no limit.
        delete_delay_s: for which bytes stay that no row names any more (readers may have a plan).
    """

    total_gb: float
    retention_mb: int
    partitions: int
    memory_mib: int
    delete_delay_s: float


@dataclass(slots=True)
class Watch:
    """The largest values seen so far, in bytes."""

    data: Path
    broker: BrokerProcess
    store: int = 0
    postgres: int = 0
    resident: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.stop.wait(GLANCE_S):
            self.look()

    def look(self) -> int:
        """Take note of what there is now; return the bytes in the store."""
        store = _bytes_below(self.data / "objects")
        self.store = max(self.store, store)
        self.postgres = max(self.postgres, _bytes_below(self.data / "postgres"))
        self.resident = max(self.resident, _resident(self.broker.pid))
        return store


def _bytes_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(place, name).stat().st_blocks * 512
            except FileNotFoundError:  # deleted since the folder was read
                continue
    return total


def _resident(pid: int) -> int:
    """Return what the broker and its children hold; pages that they share count once (PSS)."""
    total = 0
    parent = psutil.Process(pid)
    for process in [parent, *parent.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def produce(bootstrap: str, plan: Plan, progress: Console) -> int:
    """Send it all; return how many records were acknowledged.

    Raises:
        MeasurementFailed: a record was refused.
    """
    failures: list[str] = []
    acknowledged = 0

    def delivered(error: object, _: object) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "batch.size": 262_144,
            "queue.buffering.max.kbytes": 65_536,
        }
    )
    value = os.urandom(RECORD_BYTES)
    count = round(plan.total_gb * 1e9 / RECORD_BYTES)
    for number in range(count):
        while True:
            try:
                producer.produce(
                    TOPIC, value, partition=number % plan.partitions, on_delivery=delivered
                )
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
        if number % (count // 20 or 1) == 0:
            progress.print(f"{number * RECORD_BYTES / 1e9:.1f} of {plan.total_gb:g} GB sent")
        if failures:
            raise MeasurementFailed(f"a record was refused: {failures[0]}")
    producer.flush(DRAIN_S)
    if acknowledged != count:
        raise MeasurementFailed(f"{acknowledged} of {count} records acknowledged: {failures[:1]}")
    return acknowledged


def start(data: Path, plan: Plan) -> BrokerProcess:
    limit = memory_limit(plan.memory_mib * MiB) if plan.memory_mib else nullcontext()
    with limit:
        return start_broker(
            data,
            *("--set", "log.retention.check.interval.ms=5000"),
            environment={
                **os.environ,
                "STREAMHOUSE_UPKEEP__DELETE_DELAY_MS": str(round(plan.delete_delay_s * 1000)),
                "STREAMHOUSE_UPKEEP__PATIENCE_MS": str(UpkeepConfig().patience_ms),
            },
            own_imports=True,  # the limit is inherited
        )


def create_topic(bootstrap: str, plan: Plan) -> None:
    per_partition = plan.retention_mb * MB // plan.partitions
    topic = NewTopic(
        TOPIC,
        num_partitions=plan.partitions,
        replication_factor=1,
        config={"retention.bytes": str(per_partition)},
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        for done in admin.create_topics([topic]).values():
            done.result()
    except KafkaException as error:
        raise MeasurementFailed(str(error)) from error


def measure(data: Path, plan: Plan, progress: Console) -> Figures:
    """Write it all, then wait until no more is stored than retention allows."""
    broker = start(data, plan)
    watch = Watch(data, broker)
    watcher = threading.Thread(target=watch.run, name="watch")
    watcher.start()
    try:
        create_topic(broker.bootstrap, plan)
        began_s = time.monotonic()
        records = produce(broker.bootstrap, plan, progress)
        took_s = time.monotonic() - began_s
        at_rest_mb = wait_for_rest(watch, plan, progress) / MB
        rested_s = time.monotonic() - began_s - took_s
    finally:
        watch.stop.set()
        watcher.join()
        broker.stop(STOP_S)
    return {
        "records": records,
        "mb_per_s": records * RECORD_BYTES / MB / took_s,
        "store_largest_mb": watch.store / MB,
        "store_at_rest_mb": at_rest_mb,
        "rest_after_s": rested_s,
        "postgres_largest_mb": watch.postgres / MB,
        "memory_largest_mib": watch.resident / MiB,
    }


def wait_for_rest(watch: Watch, plan: Plan, progress: Console) -> int:
    """Return the bytes in the store when they are no more than what is to be kept, and a bit.

    A partition keeps a segment for as long as the others have less than retention.bytes.
    """
    allowed = plan.retention_mb * MB + plan.partitions * 64 * MiB + 64 * MiB
    deadline_s = time.monotonic() + DRAIN_S
    while (stored := watch.look()) > allowed:
        if time.monotonic() > deadline_s:
            raise MeasurementFailed(f"{stored / MB:.0f} MB are stored, {allowed / MB:.0f} allowed")
        progress.print(f"{stored / MB:.0f} MB stored, waiting for {allowed / MB:.0f}")
        time.sleep(5 * GLANCE_S)
    return stored


def main(
    *,
    total_gb: Annotated[float, typer.Option(help="To write.", min=0.01)] = 20.0,
    retention_mb: Annotated[int, typer.Option(help="To keep, of all partitions.", min=1)] = 1000,
    partitions: Annotated[int, typer.Option(min=1)] = 4,
    memory_mib: Annotated[int, typer.Option(help="Of the broker and all its children.")] = 1024,
    delete_delay_s: Annotated[float, typer.Option(help="How long replaced bytes stay.")] = 10.0,
    folder: Annotated[Path | None, typer.Option(help="Where to work; a new one if none.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
) -> None:
    """Write far more than a topic may keep, through a broker with little memory."""
    plan = Plan(
        total_gb=total_gb,
        retention_mb=retention_mb,
        partitions=partitions,
        memory_mib=memory_mib,
        delete_delay_s=delete_delay_s,
    )
    progress = Console(stderr=True)
    data = Path(tempfile.mkdtemp(prefix="streamhouse-bounded-", dir=folder))
    try:
        figures = measure(data, plan, progress)
    finally:
        remove_memory_groups()
        shutil.rmtree(data)
    rows = [Row(part="bounded", case=f"{total_gb:g} GB, {retention_mb} MB kept", figures=figures)]
    show(rows, asdict(plan), as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
