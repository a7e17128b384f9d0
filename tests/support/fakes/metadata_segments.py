"""The metadata port's builder and log compaction, in memory."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from random import Random
from uuid import UUID

from protocol.ids import Partition
from storage.metadata.segments import CleanableRange, SegmentSwap, UnbuiltRange
from storage.metadata.tasks import TaskKind
from storage.metadata.topics import Topic
from storage.segment_entry import SegmentEntry
from tests.support.fakes.metadata_log import MemoryPartition
from tests.support.fakes.metadata_objects import MemoryObjects

NEVER_CLAIMED = 0


class MemorySegments:
    """What there is to do, and swaps; see SegmentStore and TaskStore for what each promises.

    Args:
        random: where names come from.
    """

    _now_ms: Callable[[], int]
    _topics: Mapping[UUID, Topic]
    _partitions: Mapping[Partition, MemoryPartition]
    _objects: MemoryObjects

    def __init__(self, random: Random) -> None:
        self._random = random
        self._rounds: dict[str, int] = {}  # when each was begun
        self._tasks: dict[TaskKind, dict[Partition, int]] = {kind: {} for kind in TaskKind}
        self._folders: dict[UUID, str] = {}
        self._segment_paths: set[str] = set()  # all that were ever reserved

    async def clock_ms(self) -> int:
        return self._now_ms()

    async def partition_sizes(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return {
            partition: sum(row.length for row in log.index.rows_from(log.log_start_offset))
            for partition in partitions
            if (log := self._partitions.get(partition))
        }

    async def begin_round(self, name: str, every_ms: int) -> bool:
        now_ms = self._now_ms()
        begun_ms = self._rounds.get(name)
        if begun_ms is not None and now_ms - begun_ms < every_ms:
            return False
        self._rounds[name] = now_ms
        return True

    async def add_tasks(self, kind: TaskKind, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            self._tasks[kind].setdefault(partition, NEVER_CLAIMED)

    async def claim_task(self, kind: TaskKind, lease_ms: int) -> Partition | None:
        now_ms = self._now_ms()
        tasks = self._tasks[kind]
        free = (partition for partition, leased_ms in tasks.items() if leased_ms <= now_ms)
        claimed = next(free, None)
        if claimed is not None:
            del tasks[claimed]  # from now on it is the youngest
            tasks[claimed] = now_ms + lease_ms
        return claimed

    async def renew_task(self, kind: TaskKind, partition: Partition, lease_ms: int) -> None:
        if partition in self._tasks[kind]:
            self._tasks[kind][partition] = self._now_ms() + lease_ms

    async def finish_task(self, kind: TaskKind, partition: Partition) -> None:
        self._tasks[kind].pop(partition, None)

    async def unbuilt_ranges(
        self, after: Partition | None, limit: int, max_rows: int
    ) -> tuple[list[UnbuiltRange], Partition | None]:
        page = sorted(each for each in self._partitions if after is None or each > after)[:limit]
        ranges = [
            self._unbuilt_range(partition, self._partitions[partition], max_rows)
            for partition in page
            if self._partitions[partition].unbuilt_offset()
            < self._partitions[partition].high_watermark
        ]
        return ranges, page[-1] if len(page) == limit else None

    async def cleanable_ranges(self, partitions: Sequence[Partition]) -> list[CleanableRange]:
        return [
            self._cleanable_range(partition, self._partitions[partition])
            for partition in partitions
            if partition in self._partitions
        ]

    async def segments_from(
        self, partition: Partition, offset: int, limit: int
    ) -> list[SegmentEntry]:
        if partition not in self._partitions:
            return []
        return self._partitions[partition].index.rows_from(offset)[:limit]

    async def segments_before(
        self, partition: Partition, offset: int, limit: int
    ) -> list[SegmentEntry]:
        if partition not in self._partitions:
            return []
        log = self._partitions[partition]
        return log.index.rows_between(log.log_start_offset, offset)[::-1][:limit]

    async def reserve_segment(
        self, partition: Partition, start_offset: int, end_offset: int
    ) -> str | None:
        if partition not in self._partitions:
            return None
        folder = f"{self._folder(partition.topic_id)}/partitions/{partition.index}/segments"
        name = f"{folder}/{start_offset:08d}-{end_offset:08d}"
        path = f"{name}.seg"
        while path in self._segment_paths:
            path = f"{name}.{self._random.randbytes(4).hex()}.seg"
        self._segment_paths.add(path)
        self._objects.reserve(path, self._now_ms())
        return path

    async def replace_segments(self, swap: SegmentSwap) -> bool:
        assert swap.replaced, "something is replaced"
        for one, other in pairwise(swap.replaced):
            assert one.end_offset + 1 == other.start_offset, "the rows are adjacent"
        now_ms = self._now_ms()
        built = self._objects.find(swap.path)
        if built is None or built.state != "pending":
            return built is not None and built.state == "live"
        entry = SegmentEntry(
            start_offset=swap.replaced[0].start_offset,
            end_offset=swap.replaced[-1].end_offset,
            path=swap.path,
            start=swap.start,
            length=swap.length,
            max_timestamp_ms=swap.max_timestamp_ms,
            index_length=swap.index_length,
        )
        log = self._partitions.get(swap.partition)
        if log is None or not log.replace(swap.replaced, entry, now_ms):
            built.doom(now_ms)
            return False
        built.go_live(swap.size, rows=1)
        self._objects.release((row.path for row in swap.replaced if row.inline is None), now_ms)
        return True

    async def step_over(self, partition: Partition, start_offset: int, end_offset: int) -> bool:
        log = self._partitions.get(partition)
        if log is None or not start_offset <= log.unbuilt_offset() <= end_offset:
            return False
        log.built_offset = end_offset + 1
        return True

    async def set_compacted(
        self, partition: Partition, compacted_offset: int, *, cleaned_ms: int | None
    ) -> None:
        log = self._partitions.get(partition)
        if log is not None:
            log.compacted_offset = max(log.compacted_offset, compacted_offset)
            log.cleaned_ms = min(max(log.cleaned_ms, cleaned_ms or 0), self._now_ms())

    async def topic_folder(self, topic_id: UUID) -> str | None:
        return self._folders.get(topic_id)

    def _unbuilt_range(
        self, partition: Partition, log: MemoryPartition, max_rows: int
    ) -> UnbuiltRange:
        built_offset = log.unbuilt_offset()
        rows = log.index.rows_from(built_offset)[:max_rows]
        return UnbuiltRange(
            partition=partition,
            built_offset=built_offset,
            rows=len(rows),
            size=sum(row.length for row in rows),
            age_ms=self._now_ms() - log.index.oldest_ms(built_offset, max_rows),
        )

    def _cleanable_range(self, partition: Partition, log: MemoryPartition) -> CleanableRange:
        end_offset = min(log.built_offset, log.offsets().last_stable_offset)
        start, compacted = log.log_start_offset, log.compacted_offset
        rows = log.index.rows_between(start, log.built_offset)
        clean = [row for row in rows if row.end_offset < compacted]
        dirty = rows[len(clean) :]
        timestamps_ms = [row.max_timestamp_ms for row in dirty if row.max_timestamp_ms > 0]
        return CleanableRange(
            partition=partition,
            log_start_offset=start,
            compacted_offset=compacted,
            end_offset=end_offset,
            clean_size=sum(row.length for row in clean),
            dirty_size=sum(row.length for row in dirty),
            dirty_since_ms=min([log.cleaned_ms, *timestamps_ms]),
        )

    def _folder(self, topic_id: UUID) -> str:
        """Return the folder of a topic's segments, from now on its own for ever."""
        if topic_id not in self._folders:
            name = self._topics[topic_id].name
            folder = f"topics/{name}"
            if folder in self._folders.values():
                folder = f"topics/{name[:246]}.{topic_id.hex[:8]}"
            self._folders[topic_id] = folder
        return self._folders[topic_id]
