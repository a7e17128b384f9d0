"""A log that two do the background work of: the brokers' own upkeep, and Spark on a copy."""

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import asyncpg
from confluent_kafka import KafkaError, Message, Producer

from spark.log_location import LogLocation
from spark.upkeep.stores import POOL, UpkeepOrder
from storage.config import UpkeepConfig
from storage.fsck.fsck import Fsck
from storage.fsck.fsck_findings import Findings
from storage.fsck.fsck_index import FsckIndex
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres.postgres_connection import Connection
from storage.wall_clock import now_ms
from tests.clients.confluent import CALL_TIMEOUT_S
from tests.clients.records import (
    ConsumedRecord,
    SentRecord,
    by_partition,
    check_dense_offsets,
)
from tests.crash.processes import until
from tests.support.broker import BrokerProcess, start_broker
from tests.support.postgres import create_database, maintenance, postgres_server

CONFIG: Final = UpkeepConfig(segment_bytes=20_000, segment_rows=4)
SOON: Final = {
    "STREAMHOUSE_UPKEEP__BUILD_INTERVAL_MS": "200",
    "STREAMHOUSE_UPKEEP__SEGMENT_ROWS": str(CONFIG.segment_rows),
    "STREAMHOUSE_UPKEEP__SEGMENT_BYTES": str(CONFIG.segment_bytes),
}
"""The settings of a broker that does at once what CONFIG asks for."""

ROWS: Final = (
    "SELECT t.name, s.partition, s.start_offset, s.end_offset, o.path, s.byte_start, s.byte_length"
    " FROM streamhouse_internal.segments AS s"
    " JOIN streamhouse_internal.topics AS t USING (topic_id)"
    " LEFT JOIN streamhouse_internal.objects AS o USING (object_id) ORDER BY 1, 2, 3"
)
CLAIMED: Final = (
    "SELECT topic_id FROM streamhouse_internal.storage_tasks"
    " WHERE claimed_until > clock_timestamp()"
)
MARK: Final = (
    "INSERT INTO streamhouse_internal.entity_configs (kind, name, configs, version)"
    " VALUES ('database', '', '{\"went.back\": \"it ends at 1\"}', 1)"
)
KEPT_FOR_EVER: Final = "log.retention.ms=-1"
"""Records here have times of their own, long ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A database and a directory; brokers come and go.

    Attributes:
        started_with: broker configs of its brokers.
    """

    home: Path
    dsn: str
    started_with: tuple[str, ...] = ()

    @property
    def store(self) -> Path:
        return self.home / "objects"

    @property
    def location(self) -> LogLocation:
        return LogLocation(postgres=self.dsn, store=f"file://{self.store}")

    @property
    def upkeep(self) -> UpkeepOrder:
        """What executors are told for it to be done as its brokers do it."""
        given = [config.partition("=") for config in self.started_with]
        started_with = {name: value for name, _, value in given}
        return UpkeepOrder(location=self.location, config=CONFIG, started_with=started_with)

    @contextmanager
    def broker(self, environment: Mapping[str, str] | None = None) -> Iterator[BrokerProcess]:
        """Run a broker for the length of a block; without an environment it has no upkeep."""
        broker = start_broker(
            self.home / "broker",
            *("--postgres", self.dsn, "--store", f"file://{self.store}"),
            *(word for config in self.started_with for word in ("--set", config)),
            environment={**os.environ, **(environment or {})},
        )
        try:
            yield broker
        finally:
            broker.stop()

    def fetch(self, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Ask the database."""
        return asyncio.run(_fetch(self.dsn, statement, *arguments))

    def mark(self) -> None:
        """Mark the database as brokers do that see that it was set back."""
        self.fetch(MARK)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the whole index: what covers which offsets, and where it lies."""
        return self.fetch(ROWS)

    def segments(self) -> dict[str, bytes]:
        """Return the built segments that the store has, by path."""
        found = self.store.glob("topics/**/*.seg")
        return {str(path.relative_to(self.store)): path.read_bytes() for path in found}

    def batches(self) -> list[bytes]:
        """Return the batches of each row of the index, in its order."""
        return [
            (self.store / path).read_bytes()[start : start + length]
            for *_, path, start, length in self.rows()
        ]

    def until_like(self, other: "Cluster") -> None:
        """Wait until the index has become the other's, but for names of objects."""
        expected = other.extents()

        def probe() -> bool | None:
            return self.extents() == expected or None

        until(probe, "the rows that the other one has made")

    def extents(self) -> list[tuple[Any, ...]]:
        """Return what `rows` does without paths: some have random parts."""
        return [(*row[:4], *row[5:]) for row in self.rows()]

    def copy(self, home: Path) -> "Cluster":
        """Return one that has all that this one has; no broker may run meanwhile."""
        shutil.copytree(self.store, home / "objects")
        dsn = asyncio.run(_copy_database(self.dsn))
        return Cluster(home=home, dsn=dsn, started_with=self.started_with)

    def fsck(self) -> Findings:
        """Check it deeply, as `streamctl fsck --deep` does."""
        return asyncio.run(_fsck(self.location))


def new_cluster(home: Path, *started_with: str) -> Cluster:
    dsn = asyncio.run(create_database())
    return Cluster(home=home, dsn=dsn, started_with=(KEPT_FOR_EVER, *started_with))


async def _fsck(location: LogLocation) -> Findings:
    metadata = await PostgresMetadata.open(location.postgres, POOL)
    try:
        async with location.objects() as objects, FsckIndex.open(location.postgres, POOL) as index:
            check = Fsck(index=index, metadata=metadata, objects=objects, now_ms=now_ms)
            async for _ in check.run(deep=True):
                pass
            return check.findings
    finally:
        await metadata.close()


def check_received(received: list[ConsumedRecord], sent: list[SentRecord]) -> None:
    """All of them are there once, as they were sent, and those of a partition in their order."""
    fields = [(one.timestamp_ms, one.key, one.value, one.headers) for one in received]
    expected = [(one.timestamp_ms, one.key, one.value, one.headers) for one in sent]
    times = [time for time, *_ in expected]
    assert len(set(times)) == len(times), "a time names a record"
    assert sorted(fields, key=lambda one: one[0]) == sorted(expected, key=lambda one: one[0] or 0)
    check_dense_offsets(received)
    for members in by_partition(received).values():
        assert [one.timestamp_ms for one in members] == sorted(one.timestamp_ms for one in members)


async def _fetch(dsn: str, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
    connection: Connection = await asyncpg.connect(dsn)
    try:
        return [tuple(row) for row in await connection.fetch(statement, *arguments)]
    finally:
        await connection.close()


async def _copy_database(dsn: str) -> str:
    server = await asyncio.to_thread(postgres_server)
    name = dsn.partition("@/")[2].partition("?")[0]
    async with maintenance(server) as connection:
        await connection.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name} STRATEGY FILE_COPY")
    return server.database(f"{name}_copy")


def send_rounds(
    bootstrap: str, topic: str, rounds: list[list[SentRecord]], **settings: Any
) -> None:
    """Send records; each round is acknowledged before the next, so that it has rows of its own."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    common = {"bootstrap.servers": bootstrap, "linger.ms": 0, "partitioner": "murmur2"}
    producer = Producer({**common, **settings})
    for records in rounds:
        for record in records:
            assert record.timestamp_ms is not None
            producer.produce(
                topic,
                record.value,
                record.key,
                headers=list(record.headers),
                timestamp=record.timestamp_ms,
                on_delivery=delivered,
            )
        assert producer.flush(CALL_TIMEOUT_S) == 0
    assert not failures, failures[0]


def send_transactions(bootstrap: str, topic: str, outcomes: list[bool]) -> None:
    """Send a record to each of two partitions in transactions that are committed or aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(CALL_TIMEOUT_S)
    for number, committed in enumerate(outcomes):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, b"t%d" % number, b"key", partition=partition)
        producer.flush(CALL_TIMEOUT_S)
        end = producer.commit_transaction if committed else producer.abort_transaction
        end(CALL_TIMEOUT_S)


def rounds_of(
    count: int,
    size: int,
    *,
    keys: int = 50,
    start: int = 0,
    body: int = 400,
    keyless: bool = True,
) -> list[list[SentRecord]]:
    """Return rounds of records with headers, null keys, tombstones and timestamps of their own."""
    return [
        [_record(start + number * size + at, keys, body, keyless) for at in range(size)]
        for number in range(count)
    ]


def _record(number: int, keys: int, body: int, keyless: bool) -> SentRecord:
    key = None if keyless and number % 17 == 0 else b"key-%d" % (number * 7 % keys)
    value = (
        None
        if number % 13 == 0 and key
        else b"%d " % number + Random(number).randbytes(number * 31 % body)
    )
    headers = (("n", b"%d" % number), ("n", None)) if number % 3 == 0 else ()
    return SentRecord(
        key=key, value=value, headers=headers, timestamp_ms=1_750_000_000_000 + 40 * number
    )
