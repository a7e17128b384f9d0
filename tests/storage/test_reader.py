"""Reads of what only the store has: planned by the index, one GET for many, nothing skipped."""

import asyncio
import time
from random import Random

from prometheus_client import CollectorRegistry

from protocol.batch import read_header
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.errors import CorruptObject, ObjectMissing
from storage.metadata.port import BatchCommit
from storage.metrics import StorageMetrics
from storage.partition_log import PartitionLog
from storage.reading.block_cache import BlockCache
from storage.reading.read_plan import PIECE_OVERHEAD_BYTES
from storage.reading.read_planner import ColdRead
from storage.reading.reader import Reader, Records
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore


class CountingStore(MemoryStore):
    """Attributes: gets is how many ranges were read; missing makes every read fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gets = 0
        self.missing = False

    async def get(self, path: str, start: int, length: int) -> bytearray:
        self.gets += 1
        await asyncio.sleep(0)
        if self.missing:
            raise ObjectMissing(path)
        return await super().get(path, start, length)


class Bench:
    """Ten objects of one batch of about 1,000 bytes each, in one partition."""

    def __init__(self, max_bytes: int = 1 << 20) -> None:
        self.store = CountingStore()
        self.metadata = MemoryMetadata(Random(0))
        metrics = StorageMetrics(CollectorRegistry())
        self.blocks = BlockCache(
            self.store, max_bytes=max_bytes, metrics=metrics, clock=time.monotonic
        )
        self.reader = Reader(self.metadata, self.blocks, metrics)

    async def fill(self, *, damage: int = -1) -> PartitionLog:
        topic = await self.metadata.create_topic(
            "t", partition_count=1, replication_factor=1, configs={}
        )
        partition = Partition(topic.topic_id, 0)
        for number in range(10):
            data = bytearray(build_batch([Record(offset_delta=0, value=b"x" * 1000)]))
            if number == damage:
                data[-1] ^= 1
            path = f"wal/{number}"
            await self.metadata.reserve_objects([path])
            await self.store.put(path, [data])
            commit = BatchCommit(
                partition=partition, start=0, length=len(data), record_count=1, max_timestamp_ms=0
            )
            await self.metadata.commit_object(path, len(data), [commit])
        return PartitionLog(partition)

    async def read(self, log: PartitionLog, offset: int, max_bytes: int) -> Records | Exception:
        (result,) = await self.reader.read([ColdRead(log, offset, max_bytes)])
        return result


def offsets(result: Records | Exception) -> list[int]:
    assert isinstance(result, Records)
    return [read_header(batch).base_offset for batch in result.batches]


async def test_batches_come_with_their_offsets_up_to_the_limit() -> None:
    bench = Bench()
    log = await bench.fill()
    assert offsets(await bench.read(log, 3, 2500)) == [3, 4]
    assert offsets(await bench.read(log, 3, 1)) == [3], "the first comes whatever the limit"
    assert offsets(await bench.read(log, 0, 1 << 20)) == list(range(10))
    assert offsets(await bench.read(log, 10, 1 << 20)) == []
    await bench.blocks.close()


async def test_one_get_serves_all_who_wait() -> None:
    bench = Bench()
    log = await bench.fill()
    results = await asyncio.gather(*(bench.read(log, 0, 1 << 20) for _ in range(20)))
    assert all(offsets(result) == list(range(10)) for result in results)
    assert bench.store.gets == 10
    await bench.blocks.close()


async def test_a_failed_get_is_tried_again_and_leaves_no_trace() -> None:
    # Given a store that has lost everything for a while, and a cache for two runs
    max_bytes = 2 * (1100 + PIECE_OVERHEAD_BYTES)
    bench = Bench(max_bytes=max_bytes)
    log = await bench.fill()
    bench.store.missing = True
    for _ in range(5):
        assert isinstance(await bench.read(log, 0, 1 << 20), ObjectMissing)

    # When it has them again
    bench.store.missing = False
    assert offsets(await bench.read(log, 0, 1 << 20)) == list(range(10))

    # Then the cache still has room for two
    before = bench.store.gets
    await bench.read(log, 9, 1)
    assert bench.store.gets == before
    assert 0 < bench.blocks._size <= max_bytes
    await bench.blocks.close()


async def test_damage_is_an_error_and_never_a_silent_skip() -> None:
    bench = Bench()
    log = await bench.fill(damage=3)
    assert offsets(await bench.read(log, 0, 1 << 20)) == [0, 1, 2]
    assert isinstance(await bench.read(log, 3, 1 << 20), CorruptObject)
    assert offsets(await bench.read(log, 4, 1 << 20)) == [4, 5, 6, 7, 8, 9]
    await bench.blocks.close()
