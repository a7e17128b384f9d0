"""A broker whose builder and compaction do their work at once, and what they have come to."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncpg
from confluent_kafka import KafkaError, Message, Producer

from storage.postgres.postgres_binaries import socket_directory, unix_socket_dsn
from storage.postgres.postgres_connection import Connection
from tests.clients.confluent import CALL_TIMEOUT_S, Confluent
from tests.clients.records import ConsumedRecord
from tests.crash.processes import KillableBroker, killable_broker

KiB: Final = 1024
PATIENCE_S: Final = 120.0
GLANCE_S: Final = 0.05
SEGMENT_BYTES: Final = 64 * KiB
QUICK: Final = {
    "STREAMHOUSE_UPKEEP__BUILD_INTERVAL_MS": "250",
    "STREAMHOUSE_UPKEEP__SEGMENT_BYTES": str(SEGMENT_BYTES),
    "STREAMHOUSE_UPKEEP__SEGMENT_ROWS": "8",
    "STREAMHOUSE_UPKEEP__SEGMENT_AGE_MS": "500",
    "STREAMHOUSE_UPKEEP__SWEEP_INTERVAL_MS": "500",
    "STREAMHOUSE_UPKEEP__DELETE_DELAY_MS": "500",
}
SETTINGS: Final = (
    *("--set", "log.cleaner.backoff.ms=250"),
    *("--set", "log.cleaner.min.cleanable.ratio=0"),
)
COMPACTED: Final = """
    SELECT bool_and(p.built_offset = p.high_watermark AND p.compacted_offset = p.high_watermark)
    FROM streamhouse_internal.partitions AS p JOIN streamhouse_internal.topics USING (topic_id)
    WHERE name = $1
"""
BUILT: Final = "SELECT bool_and(built) FROM streamhouse.segments WHERE topic = $1"
HOLD: Final = """
    INSERT INTO streamhouse_internal.storage_tasks (kind, topic_id, partition, claimed_until)
    SELECT 'build', topic_id, partition, 'infinity'
    FROM streamhouse_internal.partitions JOIN streamhouse_internal.topics USING (topic_id)
    WHERE name = $1
"""
LET_GO: Final = """
    UPDATE streamhouse_internal.storage_tasks SET claimed_until = NULL
    WHERE claimed_until = 'infinity'
"""
SEGMENTS: Final = """
    SELECT start_offset, end_offset, byte_length FROM streamhouse.segments
    WHERE topic = $1 AND partition = 0 ORDER BY start_offset
"""


@dataclass(frozen=True, slots=True)
class Segment:
    """What one row of the index covers (inclusive), and the bytes of its batches."""

    start_offset: int
    end_offset: int
    length: int


@dataclass(frozen=True, slots=True)
class LongLogs:
    """The broker, as its clients and its database show it."""

    broker: KillableBroker

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def create(self, name: str, configs: Mapping[str, str], *, partition_count: int = 1) -> None:
        Confluent(bootstrap=self.bootstrap).create_topic(
            name, partition_count=partition_count, configs=configs
        )

    @contextmanager
    def unbuilt(self, topic: str) -> Iterator[None]:
        """Keep the objects of the writer for the length of a block: a builder seems to be at it."""
        self._do(HOLD, topic)
        yield
        self._do(LET_GO)

    def await_built(self, topic: str) -> None:
        """Wait until all records lie in segments of their own partition."""
        self._await(BUILT, topic)

    def await_compacted(self, topic: str) -> None:
        """Wait until compaction has come to the end of the log."""
        self._await(COMPACTED, topic)

    def segments(self, topic: str) -> list[Segment]:
        """Return the rows of partition 0 in offset order."""

        async def ask() -> list[Segment]:
            async with self._database() as database:
                return [Segment(*row) for row in await database.fetch(SEGMENTS, topic)]

        return asyncio.run(ask())

    def restart(self) -> None:
        """Stop and start it, so that nothing is in memory."""
        assert self.broker.process.stop() == 0
        self.broker.start()

    def _do(self, statement: str, *arguments: str) -> None:
        async def do() -> None:
            async with self._database() as database:
                await database.execute(statement, *arguments)

        asyncio.run(do())

    def _await(self, statement: str, topic: str) -> None:
        async def wait() -> None:
            async with asyncio.timeout(PATIENCE_S), self._database() as database:
                while not await database.fetchval(statement, topic):
                    await asyncio.sleep(GLANCE_S)

        asyncio.run(wait())

    @asynccontextmanager
    async def _database(self) -> AsyncIterator[Connection]:
        dsn = unix_socket_dsn(socket_directory(self.broker.embedded_postgres))
        database: Connection = await asyncpg.connect(dsn)
        try:
            yield database
        finally:
            await database.close()


@contextmanager
def running_long_logs(data: Path) -> Iterator[LongLogs]:
    """Run such a broker for the length of a block."""
    with killable_broker(data, *SETTINGS, environment=QUICK) as broker:
        yield LongLogs(broker)


@dataclass(slots=True)
class Written:
    """A producer of partition 0 of one topic, which stays the same, and what it has written.

    Attributes:
        log: acknowledged records by offset; an aborted transaction's are taken out again.
    """

    bootstrap: str
    topic: str
    settings: Mapping[str, str | int | bool] = field(default_factory=dict)
    log: dict[int, ConsumedRecord] = field(default_factory=dict)
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        common = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True}
        self.producer = Producer({**common, "linger.ms": 5, **self.settings})

    def write(self, *pairs: tuple[bytes, bytes | None], timestamp_ms: int = 0) -> list[int]:
        """Write some records, and wait until they have offsets.

        Args:
            pairs: key and value.
            timestamp_ms: of the first one; each of the others is a millisecond later. 0: now.
        """
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            offsets.append(offset)
            self.log[offset] = ConsumedRecord(
                partition=0,
                offset=offset,
                timestamp_ms=message.timestamp()[1],
                key=message.key(),
                value=message.value(),
            )

        for number, (key, value) in enumerate(pairs):
            self.producer.produce(
                self.topic,
                value,
                key,
                partition=0,
                on_delivery=delivered,
                timestamp=timestamp_ms + number if timestamp_ms else 0,
            )
        assert self.producer.flush(CALL_TIMEOUT_S) == 0
        return offsets


def latest_of(log: Mapping[int, ConsumedRecord]) -> list[ConsumedRecord]:
    """Return of each key the latest record, in offset order."""
    by_key = {log[offset].key: log[offset] for offset in sorted(log)}
    return sorted(by_key.values(), key=lambda record: record.offset)
