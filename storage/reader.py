"""The read path for what is no longer in the tail: index rows -> ranged GETs -> batches (D8).

One GET serves all who wait for the same range, and its result stays in a block cache. What follows
the rows needed is read ahead, so a consumer that walks through old data finds it waiting. GETs have
places of their own (`MAX_GETS`); nothing here is waited for by producers or by tail reads.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from protocol.errors import CorruptBatch
from storage.errors import CorruptObject, StorageError
from storage.metadata import MetadataStore, SegmentEntry, SegmentLookup
from storage.metrics import StorageMetrics
from storage.objects import ObjectStore
from storage.partition_log import PartitionLog
from storage.runs import Run, parse_run

END: Final = 2**63 - 1
MAX_GETS: Final = 16
READ_AHEAD_BYTES: Final = 16 * 1024 * 1024  # of all partitions of one fetch together
MARKER_BYTES: Final = 78  # a control batch with the end of a transaction


@dataclass(frozen=True, slots=True)
class ColdRead:
    """What a fetch wants of one partition that the tail does not hold.

    Attributes:
        end_offset: where a batch begins that is not wanted any more, or the log ends.
    """

    log: PartitionLog
    offset: int
    max_bytes: int
    end_offset: int = END


@dataclass(frozen=True, slots=True)
class Records:
    """Whole batches back to back, and their bytes; empty at the end of the log."""

    batches: Sequence[memoryview]
    size: int


class BlockCache:
    """Runs read from the store, least recently used ones dropped; one GET for many waiters."""

    def __init__(
        self,
        objects: ObjectStore,
        *,
        max_bytes: int,
        metrics: StorageMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._objects = objects
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._clock = clock
        self._runs: OrderedDict[tuple[str, int], tuple[asyncio.Task[Run], int]] = OrderedDict()
        self._size = 0
        self._places = asyncio.Semaphore(MAX_GETS)

    async def read(self, entry: SegmentEntry) -> Run:
        """Return a run, from the index if it lies there.

        Raises:
            CorruptObject, ObjectMissing, ObjectStoreUnavailable: the bytes cannot be read.
        """
        return await _finish(entry, self.load(entry))

    def load(self, entry: SegmentEntry) -> "asyncio.Task[Run] | None":
        """Return the task that has, or will have, a run; None if it lies in the index itself."""
        if entry.inline is not None:
            return None
        key = (entry.path, entry.start)
        known = self._runs.get(key)
        if known is not None:
            self._runs.move_to_end(key)
            return known[0]
        task = asyncio.create_task(self._get(entry))
        self._runs[key] = (task, entry.length)
        self._size += entry.length
        task.add_done_callback(lambda done: self._keep_or_drop(key, done))
        return task

    async def close(self) -> None:
        tasks = [task for task, _ in self._runs.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _get(self, entry: SegmentEntry) -> Run:
        async with self._places:
            began = self._clock()
            data = await self._objects.get(entry.path, entry.start, entry.length)
            self._metrics.get_seconds.observe(self._clock() - began)
            self._metrics.get_bytes.inc(len(data))
        return _parse(entry, data)

    def _keep_or_drop(self, key: tuple[str, int], task: "asyncio.Task[Run]") -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and key in self._runs and self._runs[key][0] is task:
            self._drop(key)  # the next reader tries again
        for old in list(self._runs):
            if self._size <= self._max_bytes:
                return
            if self._runs[old][0].done():
                self._drop(old)

    def _drop(self, key: tuple[str, int]) -> None:
        _, size = self._runs.pop(key)
        self._size -= size


async def _finish(entry: SegmentEntry, task: "asyncio.Task[Run] | None") -> Run:
    if task is not None:
        return await asyncio.shield(task)  # others share it
    assert entry.inline is not None  # BlockCache.load
    return _parse(entry, bytearray(entry.inline))


def _parse(entry: SegmentEntry, data: bytearray) -> Run:
    try:
        return parse_run(data, start_offset=entry.start_offset, end_offset=entry.end_offset)
    except CorruptBatch as error:
        raise CorruptObject(f"{entry.path} from byte {entry.start}: {error}") from error


def _lookup(read: ColdRead, ahead: int) -> SegmentLookup:
    wanted = read.max_bytes + ahead
    gap_end = read.log.tail.gap_end(read.offset)
    if gap_end is not None:  # markers that other brokers wrote; memory has what comes behind them
        wanted = (gap_end - read.offset) * MARKER_BYTES
    return SegmentLookup(partition=read.log.partition, offset=read.offset, max_bytes=wanted)


class Reader:
    """Plans reads by the index in Postgres and serves them through the block cache."""

    def __init__(
        self, metadata: MetadataStore, blocks: BlockCache, metrics: StorageMetrics
    ) -> None:
        self._metadata = metadata
        self._blocks = blocks
        self._metrics = metrics

    async def read(self, reads: Sequence[ColdRead]) -> list[Records | StorageError]:
        """Serve all reads with one query of the index; a failed one does not fail the others.

        Raises:
            MetadataUnavailable: the index gave no answer.
        """
        ahead = READ_AHEAD_BYTES // len(reads)
        plans = await self._metadata.find_segments([_lookup(read, ahead) for read in reads])
        pairs = zip(reads, plans, strict=True)
        return await asyncio.gather(*(self._read_one(read, plan) for read, plan in pairs))

    async def _read_one(
        self, read: ColdRead, plan: Sequence[SegmentEntry]
    ) -> Records | StorageError:
        needed, covered = 0, 0
        while needed < len(plan) and covered < read.max_bytes:
            covered += plan[needed].length
            needed += 1
        tasks = [self._blocks.load(entry) for entry in plan][:needed]
        batches: list[memoryview] = []
        size, offset = 0, read.offset
        for entry, task in zip(plan, tasks, strict=False):
            if entry.start_offset >= read.end_offset:
                break
            try:
                run = await _finish(entry, task)
            except StorageError as error:
                return Records(batches, size) if batches else error
            if entry.start_offset > offset and batches:
                break  # never skip silently: what follows a hole is asked for by itself
            budget = read.max_bytes - size
            if batches and len(run.batches[0]) > budget:
                break
            taken, taken_size, offset = run.read(offset, budget, read.end_offset)
            batches += taken
            size += taken_size
            if offset < run.end_offset or size >= read.max_bytes:
                break
        if batches:
            self._metrics.reads_from_store.inc()
        return Records(batches, size)
