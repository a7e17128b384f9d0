"""The upkeep process beside a real broker: what it does, and how it lives and dies."""

import asyncio
import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import asyncpg
import psutil
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._resource import ResourceType

from broker.configs.dynamic_broker_config import CLUSTER_WIDE
from broker.upkeep.giving_way import sessions_have_shares
from protocol.records import Record, build_batch
from storage.postgres.postgres_binaries import socket_directory, unix_socket_dsn
from storage.postgres.postgres_connection import Connection
from tests.broker.admin.questions import BROKER, SET, change
from tests.broker.admin.wire import Wire
from tests.broker.test_workers import is_alive
from tests.clients.confluent import CALL_TIMEOUT_S, Confluent
from tests.clients.records import SentRecord
from tests.crash.processes import KillableBroker, killable_broker, until
from tests.support.broker import BrokerProcess, start_broker
from tests.support.ports import free_ports
from tests.support.postgres import short_directory
from tests.support.wal_objects import wal_with_batches
from tests.support.wire import WireClient

MODULE = "broker.upkeep.upkeep_main"
DELETE_DELAY_MS = 300
QUICK = {
    "STREAMHOUSE_UPKEEP__BUILD_INTERVAL_MS": "200",
    "STREAMHOUSE_UPKEEP__SEGMENT_ROWS": "4",
    "STREAMHOUSE_UPKEEP__SEGMENT_AGE_MS": "1000",
    "STREAMHOUSE_UPKEEP__SWEEP_INTERVAL_MS": "200",
    "STREAMHOUSE_UPKEEP__DELETE_DELAY_MS": str(DELETE_DELAY_MS),
}
ROUNDS = (
    *("--set", "log.retention.check.interval.ms=200"),
    *("--set", "log.cleaner.backoff.ms=200"),
)
HTTP_S = 30
EARLIEST = -2
LATEST_TIME = -3
SEGMENTS = "SELECT built, count(*) FROM streamhouse.segments WHERE topic = $1 GROUP BY built"


@pytest.fixture
def data() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory


@contextmanager
def quick_broker(data: Path, *arguments: str) -> Iterator[KillableBroker]:
    """Run a broker whose upkeep process does everything soon."""
    with killable_broker(data, *ROUNDS, *arguments, environment=QUICK) as broker:
        yield broker


def upkeep_of(process: BrokerProcess) -> list[psutil.Process]:
    """Return the upkeep processes below a command."""
    found = []
    for one in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            if is_alive(one) and MODULE in one.cmdline():
                found.append(one)
    return found


def the_upkeep_of(process: BrokerProcess, other_than: int = 0) -> psutil.Process:
    """Wait for the upkeep process, and until it reports."""

    def probe() -> psutil.Process | None:
        found = [one for one in upkeep_of(process) if one.pid != other_than]
        return found[0] if found and details(process) == {"upkeep": "ok"} else None

    return until(probe, "the upkeep process")


def details(process: BrokerProcess) -> dict[str, str]:
    """Return what /health/ready, which has to be 200, tells besides."""
    with urlopen(f"http://{process.http}/health/ready", timeout=HTTP_S) as response:
        answer = json.loads(response.read())
    assert "upkeep" not in answer["checks"]
    told: dict[str, str] = answer["details"]
    return told


def metric(process: BrokerProcess, name: str) -> float | None:
    """Return the value of a metric by its whole name, labels and all."""
    with urlopen(f"http://{process.http}/metrics", timeout=HTTP_S) as response:
        text = response.read().decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


def segments(broker: KillableBroker, topic: str) -> dict[bool, int]:
    """Return how many rows of the index there are, built (True) and not."""

    async def ask() -> dict[bool, int]:
        sockets = socket_directory(broker.embedded_postgres)
        database: Connection = await asyncpg.connect(unix_socket_dsn(sockets))
        try:
            return {row["built"]: row["count"] for row in await database.fetch(SEGMENTS, topic)}
        finally:
            await database.close()

    return asyncio.run(ask())


def files_below(folder: Path) -> list[Path]:
    """Return all files below a folder, while others may remove folders there."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def objects(broker: KillableBroker) -> Counter[str]:
    """Return how many objects the store has, by the first part of their paths.

    Those of the writer that only tell what happened are left out: they stay for an hour and more.
    """
    root = broker.data / "objects"
    files = [one.relative_to(root) for one in files_below(root) if ".incoming" not in one.parts]
    parts = Counter(one.parts[0] for one in files)
    del parts["wal"]
    return parts + Counter(wal=len(wal_with_batches(broker.data)))


def by_time(broker: KillableBroker, topic: str, timestamp_ms: int) -> int:
    async def ask() -> int:
        async with await WireClient.connect(broker.bootstrap) as wire:
            return int((await wire.list_offset(topic, timestamp_ms)).offset)

    return asyncio.run(ask())


def earliest(broker: KillableBroker, topic: str) -> int:
    return by_time(broker, topic, EARLIEST)


def produce_batch(broker: KillableBroker, topic: str, batch: bytes) -> int:
    """Return the error code."""

    async def ask() -> int:
        async with await WireClient.connect(broker.bootstrap) as wire:
            return int((await wire.produce(topic, batch)).error_code)

    return asyncio.run(ask())


def delete_topic(broker: KillableBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (deleted,) = admin.delete_topics([topic], operation_timeout=CALL_TIMEOUT_S).values()
    deleted.result(timeout=CALL_TIMEOUT_S)


def write(broker: KillableBroker, topic: str, flushes: int) -> list[bytes]:
    """Produce records in so many objects of the writer; return their values."""
    client = Confluent(bootstrap=broker.bootstrap)
    values = [b"%d" % number for number in range(10 * flushes)]
    for at in range(0, len(values), 10):
        client.produce(topic, [SentRecord(key=None, value=value) for value in values[at : at + 10]])
    return values


def read(broker: KillableBroker, topic: str) -> list[bytes]:
    consumed = Confluent(bootstrap=broker.bootstrap).consume(topic)
    return [record.value or b"" for record in sorted(consumed, key=lambda one: one.offset)]


def test_records_move_into_segments_and_are_read_from_them(data: Path) -> None:
    with quick_broker(data) as broker:
        # Given a partition whose records came in many small objects
        Confluent(bootstrap=broker.bootstrap).create_topic("t", partition_count=1)
        values = write(broker, "t", 12)

        # When the upkeep process has had its time, then all of them are in segments
        until(lambda: True if not segments(broker, "t").get(False) else None, "the builder")
        until(lambda: True if not objects(broker)["wal"] else None, "the sweeper")
        assert objects(broker)["topics"] >= 1
        name = "streamhouse_upkeep_segments_built_total"
        assert until(lambda: metric(broker.process, name) or None, name) >= 1

        # And a consumer that begins at 0 gets them: from memory, and after a restart from there
        assert read(broker, "t") == values
        assert broker.process.stop() == 0
        broker.start()
        assert read(broker, "t") == values


def test_retention_that_is_set_live_removes_the_beginning(data: Path) -> None:
    with quick_broker(data) as broker:
        # Given a topic that keeps its records for 30 days, and one that nobody changes
        client = Confluent(bootstrap=broker.bootstrap)
        for topic in ("old", "kept"):
            client.create_topic(topic, partition_count=1, configs={"retention.ms": "2592000000"})
            write(broker, topic, 8)
        client.create_topic("follows", partition_count=1)
        write(broker, "follows", 1)
        the_upkeep_of(broker.process)
        assert earliest(broker, "old") == 0

        # When it shall keep them for a moment only
        client.set_configs(ResourceType.TOPIC, "old", {"retention.ms": "1"})

        # Then it begins at its end, and is empty; its rows go, and its objects
        until(lambda: earliest(broker, "old") == 80 or None, "retention")
        assert read(broker, "old") == []
        until(lambda: not segments(broker, "old") or None, "the rows' end")
        folder = broker.data / "objects" / "topics" / "old"
        until(lambda: not files_below(folder) or None, "the objects' end")
        assert len(read(broker, "kept")) == 80
        assert earliest(broker, "kept") == 0

        # And what is written later has the next offsets
        client.set_configs(ResourceType.TOPIC, "old", {"retention.ms": "-1"})
        write(broker, "old", 1)
        assert earliest(broker, "old") == 80
        assert len(read(broker, "old")) == 10

        # And when it is set of all brokers, topics without a retention of their own follow
        assert earliest(broker, "follows") == 0
        port = int(broker.bootstrap.rpartition(":")[2])
        retention = ("log.retention.ms", SET, "1")
        change(Wire("127.0.0.1", port), CLUSTER_WIDE, retention, kind=BROKER)
        until(lambda: earliest(broker, "follows") == 10 or None, "the brokers' retention")
        assert earliest(broker, "kept") == 0


def test_a_deleted_topics_bytes_go_and_a_new_one_of_its_name_is_empty(data: Path) -> None:
    with quick_broker(data) as broker:
        # Given a topic with segments
        client = Confluent(bootstrap=broker.bootstrap)
        client.create_topic("t", partition_count=2)
        write(broker, "t", 12)
        until(lambda: segments(broker, "t").get(True), "the builder")

        # When it is deleted and made again
        delete_topic(broker, "t")
        client.create_topic("t", partition_count=2)

        # Then the new one is empty, and the bytes of the old one go
        assert read(broker, "t") == []
        until(lambda: set(objects(broker)) == {"streamhouse.json"} or None, "the bytes' end")
        topics = broker.data / "objects" / "topics"
        until(lambda: not list(topics.iterdir()) or None, "the end of their folders")

        # And what is written into the new one is built, and read after a restart
        values = write(broker, "t", 8)
        until(lambda: segments(broker, "t").get(True), "the builder")
        broker.process.stop()
        broker.start()
        assert sorted(read(broker, "t")) == sorted(values)


def test_a_record_with_an_impossible_time_is_compacted_around_and_found_by_time(data: Path) -> None:
    with quick_broker(data) as broker:
        # Given a compacted topic with a record whose time has more than 64 bits; its batch says now
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
        client = Confluent(bootstrap=broker.bootstrap)
        client.create_topic("t", partition_count=1, configs=configs)
        upkeep = the_upkeep_of(broker.process)
        now_ms = time.time_ns() // 1_000_000
        records = [
            Record(offset_delta=0, key=b"a", value=b"old"),
            Record(offset_delta=1, timestamp_delta_ms=2**63 - 1, key=b"b", value=b"1"),
        ]
        times = {"base_timestamp_ms": now_ms, "max_timestamp_ms": now_ms}
        assert produce_batch(broker, "t", build_batch(records, **times)) == 0

        # When the other record of its batch is obsolete
        for _ in range(4):
            client.produce("t", [SentRecord(key=b"a", value=b"new")])
        name = "streamhouse_upkeep_segments_compacted_total"
        until(lambda: metric(broker.process, name) or None, name)

        # Then the upkeep goes on, and whoever asks for the latest time is answered
        assert is_alive(upkeep)
        assert metric(broker.process, "streamhouse_upkeep_restarts_total") == 0
        assert by_time(broker, "t", LATEST_TIME) >= 0
        assert "Traceback" not in broker.log()

        # And that record is gone; after a restart nobody reads it from memory
        broker.process.stop()
        broker.start()
        assert {*read(broker, "t")} == {b"1", b"new"}


@pytest.mark.parametrize("patience_ms", [60_000, 0])
def test_an_upkeep_process_with_patience_gives_way(data: Path, patience_ms: int) -> None:
    # Given a broker whose upkeep has patience, or none
    patience = {"STREAMHOUSE_UPKEEP__PATIENCE_MS": str(patience_ms)}
    with killable_broker(data, environment=QUICK | patience) as broker:
        upkeep = the_upkeep_of(broker.process)

        # Then it is nice to the broker, or is not
        nicer = 10 if patience_ms else 0
        assert upkeep.nice() == min(os.nice(0) + nicer, 19)
        gives_way = patience_ms and sessions_have_shares()
        policy = os.SCHED_IDLE if gives_way else os.SCHED_OTHER
        assert os.sched_getscheduler(upkeep.pid) == policy


@contextmanager
def old_snapshot(broker: KillableBroker) -> Iterator[None]:
    """Be somebody who backs the database up."""
    dsn = unix_socket_dsn(socket_directory(broker.embedded_postgres))
    with asyncio.Runner() as runner:
        connection: Connection = runner.run(asyncpg.connect(dsn))
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM streamhouse.topics"
        runner.run(connection.execute(begin))
        yield
        connection.terminate()


def test_an_upkeep_process_that_is_killed_comes_back(data: Path) -> None:
    with quick_broker(data) as broker, old_snapshot(broker):
        # Given a broker with its upkeep process
        upkeep = the_upkeep_of(broker.process)
        assert not re.search("postgresql://|password", " ".join(upkeep.cmdline()))

        # When that is killed
        upkeep.kill()

        # Then another one takes its place, and that it died is told
        the_upkeep_of(broker.process, other_than=upkeep.pid)
        assert len(upkeep_of(broker.process)) == 1
        assert metric(broker.process, "streamhouse_upkeep_restarts_total") == 1
        age = 'streamhouse_upkeep_seconds_since_success{work="retain"}'
        until(lambda: (metric(broker.process, age) or 99) < 2 or None, age)
        assert '"event": "upkeep died"' in broker.log()

        # And sees who keeps rows of the database
        oldest = "streamhouse_postgres_oldest_transaction_seconds"
        until(lambda: metric(broker.process, oldest) or None, oldest)
        assert "Traceback" not in broker.log()


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_upkeep_process_ends_with_the_broker(data: Path, sent: signal.Signals) -> None:
    with quick_broker(data) as broker:
        # Given a broker that has something to do
        Confluent(bootstrap=broker.bootstrap).create_topic("t", partition_count=1)
        upkeep = the_upkeep_of(broker.process)
        write(broker, "t", 3)

        # When it ends, however it does
        began_s = time.monotonic()
        broker.process.process.send_signal(sent)
        assert broker.process.process.wait(10) == (-sent if sent == signal.SIGKILL else 0)

        # Then its upkeep process is gone, too, at once
        assert time.monotonic() - began_s < 5
        until(lambda: not is_alive(upkeep) or None, "the end of the upkeep process")
        assert time.monotonic() - began_s < 6
        assert "Traceback" not in broker.log()


def test_the_workers_of_a_command_have_one_upkeep_process(data: Path) -> None:
    # Given two workers
    port = free_ports(4)
    http = f"127.0.0.1:{port + 2}"
    broker = start_broker(
        data,
        *("--workers", "2", "--http", http, *ROUNDS),
        listen=f"127.0.0.1:{port}",
        environment=QUICK,
    )
    try:
        # Then the first one has the upkeep process
        until(lambda: upkeep_of(broker) or None, "the upkeep process")
        first, second = broker.http.split(",")
        for address, has in ((first, True), (second, False)):
            with urlopen(f"http://{address}/health/ready", timeout=HTTP_S) as response:
                assert ("upkeep" in json.loads(response.read())["details"]) is has
        assert len(upkeep_of(broker)) == 1
    finally:
        assert broker.stop() == 0


def test_a_broker_can_be_without(data: Path) -> None:
    environment = {**QUICK, "STREAMHOUSE_UPKEEP__ENABLED": "false"}
    with killable_broker(data, environment=environment) as broker:
        write_to = Confluent(bootstrap=broker.bootstrap)
        write_to.create_topic("t", partition_count=1)
        write(broker, "t", 8)
        assert details(broker.process) == {}
        assert metric(broker.process, "streamhouse_upkeep_restarts_total") is None
        assert upkeep_of(broker.process) == []
