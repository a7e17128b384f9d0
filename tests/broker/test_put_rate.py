"""PUTs cost money: how many there are depends on time alone, not on partitions, topics or clients.

Time is virtual: each PUT takes PUT_S, each run is exactly as long, whatever this machine is doing.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.config import WriterConfig
from storage.metadata.usage import BROKER_CLIENT, UsageBy
from storage.metrics import StorageMetrics
from storage.objects.object_paths import ReservedPaths
from storage.objects.objects_counted import CountedStore
from storage.objects.port import Buffer
from storage.partition_log import PartitionLog
from storage.tail import TailCache
from storage.usage_counter import UsageCounter
from storage.writer import Writer
from tests.support import virtual_time
from tests.support.appends import append
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore

PUT_S: Final = 1.0  # then an object may be sealed every 250 ms, which is the default flush_ms, too
TICK_S: Final = 0.01
BATCHES_PER_TICK: Final = 10
BATCH: Final = build_batch([Record(offset_delta=0, value=b"v" * 100)])
NOW_MS: Final = 1_790_000_000_000


class SlowStore(MemoryStore):
    """Attributes: puts is how many began."""

    def __init__(self) -> None:
        super().__init__()
        self.puts = 0

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        self.puts += 1
        await asyncio.sleep(PUT_S)
        await super().put(path, parts)


@dataclass(frozen=True, slots=True)
class PutBench:
    """A writer on a slow store, and partitions to write to."""

    store: SlowStore
    metadata: MemoryMetadata
    usage: UsageCounter
    writer: Writer
    logs: Sequence[PartitionLog]

    async def produce(self, seconds: float, clients: int = 1) -> int:
        """Spread batches evenly in time and over partitions and clients; return the PUTs."""
        loop = asyncio.get_running_loop()
        before, began_s = self.store.puts, loop.time()
        targets = itertools.cycle(self.logs)
        names = itertools.cycle([f"client-{number}" for number in range(clients)])
        for tick in range(round(seconds / TICK_S)):
            for log in itertools.islice(targets, BATCHES_PER_TICK):
                data = memoryview(bytearray(BATCH))
                append(self.writer, log, data, client_id=next(names))
            await asyncio.sleep(began_s + (tick + 1) * TICK_S - loop.time())
        return self.store.puts - before


@asynccontextmanager
async def put_bench(partitions: int, topics: int = 1) -> AsyncIterator[PutBench]:
    metadata, ids = MemoryMetadata(Random(0)), itertools.count()
    store, usage = SlowStore(), UsageCounter(metadata, client_id=BROKER_CLIENT, now_ms=_now_ms)
    paths = ReservedPaths(metadata, lambda: UUID(int=next(ids)))
    logs: list[PartitionLog] = []
    for number in range(topics):
        topic = await metadata.create_topic(
            f"t{number}", partition_count=partitions, replication_factor=1, configs={}
        )
        logs += [PartitionLog(Partition(topic.topic_id, index)) for index in range(partitions)]
    writer = Writer(
        objects=CountedStore(store, usage),
        metadata=metadata,
        paths=paths,
        tail=TailCache(1 << 20),
        config=WriterConfig(),
        metrics=StorageMetrics(CollectorRegistry()),
        clock=asyncio.get_running_loop().time,
        now_ms=_now_ms,
        writer_id=UUID(int=0),
        name_of=lambda _: "t",
    )
    running = asyncio.create_task(writer.run())
    try:
        yield PutBench(store, metadata, usage, writer, logs)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await paths.close()


def _now_ms() -> int:
    return NOW_MS


async def _puts(seconds: float, partitions: int, topics: int = 1, clients: int = 1) -> int:
    """Return how many PUTs there are in so many seconds, once the writer knows its store."""
    async with put_bench(partitions, topics) as bench:
        await bench.produce(5.0, clients)
        return await bench.produce(seconds, clients)


def test_puts_do_not_depend_on_how_many_partitions_there_are() -> None:
    # Given the same records each second, to one partition, to 5,000, to 50 topics of 100 clients
    seconds = 10.0
    few = virtual_time.run(_puts(seconds, partitions=1))
    many = virtual_time.run(_puts(seconds, partitions=5000))
    mixed = virtual_time.run(_puts(seconds, partitions=100, topics=50, clients=100))

    # Then each has as many PUTs, and no more than one in the flush interval
    assert many == pytest.approx(few, rel=0.1)
    assert mixed == pytest.approx(few, rel=0.1)
    assert max(few, many, mixed) <= seconds * 1000 / WriterConfig().flush_ms * 1.05


def test_nothing_is_put_while_nothing_is_produced() -> None:
    async def idle() -> tuple[int, int]:
        async with put_bench(partitions=5000) as bench:
            await asyncio.sleep(600)
            before = bench.store.puts
            await bench.produce(1.0)
            await asyncio.sleep(10 * PUT_S)
            produced = bench.store.puts
            await asyncio.sleep(600)
            return before, bench.store.puts - produced

    # When a broker is idle for ten minutes, before and after records, then there is no PUT
    assert virtual_time.run(idle()) == (0, 0)


def test_what_is_charged_is_what_was_put() -> None:
    async def charged() -> tuple[int, int, int, dict[str, float], int, int]:
        async with put_bench(partitions=1000, topics=2) as bench:
            await bench.produce(5.0, clients=3)
            await asyncio.sleep(10 * PUT_S)
            await bench.usage.flush()
            totals = await bench.metadata.usage(0, 2 * NOW_MS, UsageBy.CLIENT, limit=10)
            stored = await bench.metadata.stored_bytes()
            return (
                bench.store.puts,
                stored.total,
                sum(stored.topics.values()),
                {total.key: total.counts.puts for total in totals},
                sum(total.counts.put_bytes for total in totals),
                sum(total.counts.produced_bytes for total in totals),
            )

    # When clients produce to two topics
    puts, total, indexed, by_client, put_bytes, produced_bytes = virtual_time.run(charged())

    # Then they share all PUTs, evenly as they produced, and every byte that was stored
    assert sum(by_client.values()) == pytest.approx(puts)
    assert by_client == {f"client-{n}": pytest.approx(puts / 3, rel=0.01) for n in range(3)}
    assert put_bytes == total
    assert produced_bytes == indexed == len(BATCH) * 500 * BATCHES_PER_TICK
