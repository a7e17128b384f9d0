"""The metadata port's retention and sweeper, in memory."""

from collections.abc import Callable, Mapping, Sequence

from protocol.ids import Partition
from storage.metadata.segments import ProducerKey, RetentionRequest
from storage.metadata.tasks import TaskKind
from storage.segment_entry import SegmentEntry
from tests.support.fakes.metadata_log import MemoryPartition
from tests.support.fakes.metadata_objects import MemoryObjects


class MemoryRetention:
    """What has had its time; see SegmentStore, and TaskStore for `backlog`."""

    _next_producer_id: int
    _now_ms: Callable[[], int]
    _partitions: Mapping[Partition, MemoryPartition]
    _deleted: dict[Partition, MemoryPartition]  # of deleted topics, until their rows are purged
    _objects: MemoryObjects
    _tasks: dict[TaskKind, dict[Partition, int]]

    async def expire_records(self, requests: Sequence[RetentionRequest]) -> dict[Partition, int]:
        moved: dict[Partition, int] = {}
        for request in requests:
            log = self._partitions.get(request.partition)
            if log is None:
                continue
            if log.expire(request.before_ms, request.keep_bytes, self._time_of):
                moved[request.partition] = log.log_start_offset
        return moved

    def _time_of(self, row: SegmentEntry) -> int:
        """Return a row's largest timestamp; records without one are as old as their object."""
        found = self._objects.find(row.path) if row.max_timestamp_ms < 0 else None
        return row.max_timestamp_ms if found is None else found.created_ms

    async def purge(self, limit: int) -> int:
        gone = 0
        for partition, deleted in list(self._deleted.items()):
            deleted.log_start_offset = deleted.high_watermark
            gone += self._purge(deleted, limit - gone)
            if gone < limit:
                del self._deleted[partition]
        for log in self._partitions.values():
            gone += self._purge(log, limit - gone)
        for tasks in self._tasks.values():
            orphans = [each for each in tasks if each not in self._partitions][: limit - gone]
            for partition in orphans:
                del tasks[partition]
            gone += len(orphans)
        return gone

    async def expire_producers(
        self, after: ProducerKey | None, unused_ms: int, limit: int
    ) -> tuple[int, ProducerKey | None]:
        keys = (
            (partition, producer_id)
            for partition, log in self._partitions.items()
            for producer_id in log.producer_ids
        )
        page = sorted(key for key in keys if after is None or key > after)[:limit]
        written_ms = self._now_ms() - unused_ms
        gone = sum(
            self._partitions[partition].forget_producer(
                producer_id, written_ms, self._next_producer_id
            )
            for partition, producer_id in page
        )
        return gone, page[-1] if len(page) == limit else None

    async def doom_abandoned(self, older_than_ms: int, limit: int) -> int:
        now_ms = self._now_ms()
        return self._objects.doom_abandoned(now_ms - older_than_ms, limit, now_ms)

    async def doom_unneeded(
        self, after: int, older_than_ms: int, limit: int
    ) -> tuple[int, int | None]:
        now_ms = self._now_ms()
        return self._objects.doom_unneeded(after, now_ms - older_than_ms, limit, now_ms)

    async def doomed_objects(self, grace_ms: int, limit: int) -> list[str]:
        return self._objects.doomed(self._now_ms() - grace_ms, limit)

    async def known_objects(self, paths: Sequence[str]) -> set[str]:
        return {path for path in paths if self._objects.find(path) is not None}

    async def stored_ms(self, paths: Sequence[str]) -> dict[str, int]:
        found = ((path, self._objects.find(path)) for path in paths)
        return {path: one.created_ms for path, one in found if one is not None}

    async def uncommitted_objects(self, paths: Sequence[str]) -> set[str]:
        found = ((path, self._objects.find(path)) for path in paths)
        return {path for path, one in found if one is None or one.state == "pending"}

    async def forget_objects(self, paths: Sequence[str]) -> None:
        self._objects.forget(paths)

    async def postpone_objects(self, paths: Sequence[str], delay_ms: int) -> None:
        self._objects.postpone(paths, self._now_ms() + delay_ms)

    async def backlog(self) -> Mapping[str, int]:
        tasks = {kind.value: len(waiting) for kind, waiting in self._tasks.items()}
        pending, doomed = self._objects.count("pending"), self._objects.count("doomed")
        return {**tasks, "pending": pending, "doomed": doomed}

    def _purge(self, log: MemoryPartition, limit: int) -> int:
        """Remove at most `limit` rows before the log start offset; return how many."""
        rows = log.index.remove_before(log.log_start_offset, limit)
        self._objects.release((row.path for row in rows if row.inline is None), self._now_ms())
        return len(rows) + log.remove_aborted(limit - len(rows))
