"""A partition whose records lie in a store in memory, some of them in built segments."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from prometheus_client import CollectorRegistry

from protocol.batch import read_header
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.config import MiB, S3Config
from storage.errors import ObjectMissing, ObjectStoreUnavailable, StorageError
from storage.metadata.port import BatchCommit, SegmentLookup
from storage.metadata.segments import SegmentSwap
from storage.metrics import StorageMetrics
from storage.partition_log import PartitionLog
from storage.reading.block_cache import BlockCache
from storage.reading.read_planner import END, ColdRead
from storage.reading.reader import Reader, Records
from storage.reading.timestamp_search import TimestampSearch
from storage.runs import parse_run
from storage.segment_encoder import SegmentEncoder
from storage.segment_entry import SegmentEntry
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore
from tests.support.policies import read_policy

DEADLINE_S = S3Config(bucket="b").deadline_s
POLICY = read_policy("t")


class WatchedStore(MemoryStore):
    """Attributes:
    gets: the ranges that were read.
    held: is waited for by every GET.
    get_s: what each of the others takes.
    away: of paths that begin so, none gets what it asks for.
    denied: paths of which nothing is read, as it is said at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gets: list[tuple[str, int, int]] = []
        self.lost: set[str] = set()
        self.held = asyncio.Event()
        self.held.set()
        self.get_s = 0.0
        self.away: str | None = None
        self.denied: set[str] = set()

    async def get(self, path: str, start: int, length: int) -> bytearray:
        self.gets.append((path, start, length))
        await self.held.wait()
        if path in self.denied:
            raise ObjectStoreUnavailable(path)
        if self.away is not None and path.startswith(self.away):
            await asyncio.sleep(DEADLINE_S)
            raise ObjectStoreUnavailable(path)
        if self.get_s:
            await asyncio.sleep(self.get_s)
        if path in self.lost:
            raise ObjectMissing(path)
        return await super().get(path, start, length)

    def damage(self, path: str, at: int) -> None:
        """Change one byte."""
        content = bytearray(self._objects[path])
        content[at] ^= 1
        self._objects[path] = bytes(content)


class WatchedMetadata(MemoryMetadata):
    """Attributes: lookups is how often rows were asked for."""

    lookups = 0

    async def find_segments(self, lookups: Sequence[SegmentLookup]) -> list[list[SegmentEntry]]:
        self.lookups += 1
        return await super().find_segments(lookups)


class ColdBench:
    """One topic; every partition is written by objects of the writer, then built.

    Attributes: now_s is what the caches take for the time.
    """

    def __init__(self, *, max_bytes: int = 64 * MiB) -> None:
        self.store = WatchedStore()
        self.metadata = WatchedMetadata(Random(0))
        self.now_s = 0.0
        self.metrics = StorageMetrics(CollectorRegistry())
        self._max_bytes = max_bytes
        self._random = Random(1)
        self._written = 0
        self.restart()

    def restart(self) -> None:
        """Begin with empty caches."""
        self.blocks = BlockCache(
            self.store,
            max_bytes=self._max_bytes,
            metrics=self.metrics,
            clock=lambda: self.now_s,
        )
        self.reader = Reader(self.metadata, self.blocks, self.metrics)
        self.timestamps = TimestampSearch(self.metadata, self.blocks)
        self.store.gets.clear()
        self.metadata.lookups = 0

    async def close(self) -> None:
        await self.blocks.close()

    async def create(self, partition_count: int = 1) -> list[PartitionLog]:
        topic = await self.metadata.create_topic(
            "t", partition_count=partition_count, replication_factor=1, configs={}
        )
        return [PartitionLog(Partition(topic.topic_id, at)) for at in range(partition_count)]

    async def write(
        self,
        logs: Sequence[PartitionLog],
        *,
        batches: int,
        batch_bytes: int = MiB // 4,
        timestamps_ms: Callable[[int], int] = lambda _: 0,
    ) -> None:
        """Write one object with so many batches of one record for each partition."""
        parts: list[bytes] = []
        commits: list[BatchCommit] = []
        start = 0
        for log in logs:
            for number in range(batches):
                value = self._random.randbytes(batch_bytes - 80)
                timestamp_ms = timestamps_ms(number)
                record = Record(offset_delta=0, value=value)
                part = build_batch([record], base_timestamp_ms=timestamp_ms)
                parts.append(part)
                commits.append(
                    BatchCommit(
                        partition=log.partition,
                        start=start,
                        length=len(part),
                        record_count=1,
                        max_timestamp_ms=timestamp_ms,
                    )
                )
                start += len(part)
        self._written += 1
        path = f"wal/{self._written:04}"  # in the order of writing, as real ones
        await self.metadata.reserve_objects([path])
        await self.store.put(path, parts)
        await self.metadata.commit_object(path, start, commits)

    async def build(
        self,
        log: PartitionLog,
        *,
        rows: int = 1_000,
        keep: Callable[[int], bool] = lambda _: True,
    ) -> str:
        """Make one segment of the first rows that are not built; return its path.

        Args:
            keep: tells of an offset whether its batch is kept; others leave a gap.
        """
        found = await self.metadata.segments_from(log.partition, 0, 1_000)
        return await self.swap(log, [row for row in found if not row.index_length][:rows], keep)

    async def swap(
        self, log: PartitionLog, rows: Sequence[SegmentEntry], keep: Callable[[int], bool]
    ) -> str:
        start_offset, end_offset = rows[0].start_offset, rows[-1].end_offset
        encoder = SegmentEncoder(
            topic_id=log.partition.topic_id,
            partition=log.partition.index,
            topic=POLICY,
            start_offset=start_offset,
        )
        for row in rows:
            for batch in await self._batches(row):
                if keep(read_header(batch).base_offset):
                    encoder.add(batch)
        built = encoder.finish(end_offset=end_offset)
        path = await self.metadata.reserve_segment(log.partition, start_offset, end_offset)
        assert path is not None
        await self.store.put(path, built.parts)
        swap = SegmentSwap(
            partition=log.partition,
            path=path,
            size=built.size,
            replaced=rows,
            start=built.start,
            length=built.length,
            index_length=built.index_length,
            max_timestamp_ms=built.max_timestamp_ms,
        )
        assert await self.metadata.replace_segments(swap)
        return path

    async def _batches(self, row: SegmentEntry) -> Sequence[memoryview]:
        data = await self.store.get(row.path, row.start, row.length)
        if not row.index_length:
            return parse_run(data, start_offset=row.start_offset, end_offset=row.end_offset).batches
        view, batches = memoryview(data), []
        while view:
            size = read_header(view).size
            batches.append(view[:size])
            view = view[size:]
        return batches

    async def read(
        self, log: PartitionLog, offset: int, max_bytes: int = MiB, end_offset: int = END
    ) -> Records | StorageError:
        (result,) = await self.reader.read([ColdRead(log, offset, max_bytes, end_offset)])
        return result

    async def replay(self, log: PartitionLog, offset: int = 0, max_bytes: int = MiB) -> list[int]:
        """Read to the end as a consumer does; return the base offsets of all batches."""
        found: list[int] = []
        while batches := offsets(records := await self.read(log, offset, max_bytes)):
            found += batches
            assert isinstance(records, Records)
            last = read_header(records.batches[-1])
            offset = last.base_offset + last.last_offset_delta + 1
        return found


def offsets(result: Records | StorageError) -> list[int]:
    """Return the base offsets of what was read."""
    assert isinstance(result, Records), result
    assert result.size == sum(map(len, result.batches))
    return [read_header(batch).base_offset for batch in result.batches]
