"""The metadata port's progress, in memory."""

from collections.abc import Iterable, Mapping
from itertools import groupby, islice
from uuid import UUID

from protocol.ids import Partition
from storage.metadata.progress import NO_TIMESTAMP, GroupProgress, TopicProgress
from storage.metadata.topics import Topic
from tests.support.fakes.metadata_groups import MemoryGroups
from tests.support.fakes.metadata_log import MemoryPartition


class MemoryProgress(MemoryGroups):
    """Progress; see ProgressStore for what each method promises."""

    _topics: dict[UUID, Topic]
    _partitions: Mapping[Partition, MemoryPartition]

    async def topic_progress(self, limit: int) -> list[TopicProgress]:
        logs = sorted(
            (self._topics[partition.topic_id].name, partition.index, log)
            for partition, log in self._partitions.items()
        )
        progress = []
        for topic, rows in groupby(logs[:limit], key=lambda row: row[0]):
            _, partitions, found = zip(*rows, strict=True)
            progress.append(
                TopicProgress(
                    topic=topic,
                    partitions=partitions,
                    log_start_offsets=[log.log_start_offset for log in found],
                    high_watermarks=[log.high_watermark for log in found],
                )
            )
        return progress

    async def group_progress(self, limit: int) -> list[GroupProgress]:
        progress = []
        rows = islice(self._committed(), limit)
        for (group_id, topic), found in groupby(rows, key=lambda row: row[:2]):
            _, _, partitions, offsets, logs = zip(*found, strict=True)
            unread = [_unread(log, offset) for log, offset in zip(logs, offsets, strict=True)]
            progress.append(
                GroupProgress(
                    group_id=group_id,
                    topic=topic,
                    partitions=partitions,
                    committed_offsets=offsets,
                    lags=[lag for lag, _ in unread],
                    unread_since_ms=[since_ms for _, since_ms in unread],
                )
            )
        return progress

    def _committed(self) -> Iterable[tuple[str, str, int, int, MemoryPartition]]:
        """Yield group, topic, partition, committed offset and log, in order."""
        rows = [
            (group_id, self._topics[each.topic_id].name, each.index, committed.offset, log)
            for group_id, group in self._groups.items()
            for each, committed in group.offsets.items()
            if (log := self._partitions.get(each))
        ]
        return sorted(rows, key=lambda row: row[:3])


def _unread(log: MemoryPartition, committed_offset: int) -> tuple[int, int]:
    """Return the lag, and when the oldest record was produced that was not read."""
    first_offset = max(committed_offset, log.log_start_offset)
    lag = max(log.high_watermark - first_offset, 0)
    if not lag:
        return 0, NO_TIMESTAMP
    rows = log.index.rows_from(first_offset)
    return lag, rows[0].max_timestamp_ms if rows else NO_TIMESTAMP
