"""The metadata port's usage, in memory."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from protocol.ids import Partition
from storage.metadata.topics import Topic
from storage.metadata.usage import (
    DELETED_TOPIC,
    NO_TOPIC,
    OTHER,
    StoredBytes,
    UsageBy,
    UsageCounts,
    UsageRow,
    UsageTotal,
)
from tests.support.fakes.metadata_log import MemoryPartition
from tests.support.fakes.metadata_objects import MemoryObjects


@dataclass(slots=True)
class _Row:
    """What one client asked of one topic in one hour. Attributes: topic is its name."""

    topic: str = ""
    counts: UsageCounts = field(default_factory=UsageCounts)


class MemoryUsage:
    """Usage; see UsageStore for what each method promises."""

    _now_ms: Callable[[], int]
    _topics: dict[UUID, Topic]
    _partitions: Mapping[Partition, MemoryPartition]
    _objects: MemoryObjects

    def __init__(self) -> None:
        self._usage: dict[tuple[int, UUID, str], _Row] = {}

    async def add_usage(self, rows: Sequence[UsageRow]) -> None:
        for row in rows:
            kept = self._usage.setdefault((row.hour_ms, row.topic_id, row.client_id), _Row())
            if row.topic_id in self._topics:
                kept.topic = self._topics[row.topic_id].name
            elif row.topic_id != NO_TOPIC and not kept.topic:
                kept.topic = DELETED_TOPIC
            kept.counts.add(row.counts)

    async def usage(
        self, since_ms: int, until_ms: int, by: UsageBy, *, limit: int
    ) -> list[UsageTotal]:
        totals: dict[str, UsageCounts] = {}
        first_ms: dict[str, int] = {}
        for (hour_ms, _, client_id), row in sorted(self._usage.items(), key=lambda item: item[0]):
            if since_ms <= hour_ms < until_ms:
                key = _key(by, row.topic, client_id, hour_ms)
                totals.setdefault(key, UsageCounts()).add(row.counts)
                first_ms.setdefault(key, hour_ms)
        beyond = sorted(totals, key=lambda key: (-_requests(totals[key]), key))[limit:]
        for key, counts in [(key, totals.pop(key)) for key in beyond]:
            totals.setdefault(OTHER, UsageCounts()).add(counts)
            first_ms[OTHER] = min(first_ms.get(OTHER, until_ms), first_ms[key])
        return [
            UsageTotal(key=key, first_hour_ms=first_ms[key], counts=counts)
            for key, counts in sorted(totals.items(), key=lambda item: item[0])
        ]

    async def stored_bytes(self) -> StoredBytes:
        topics: Counter[str] = Counter()
        for partition, log in self._partitions.items():
            name = self._topics[partition.topic_id].name
            for row in log.index.rows:
                topics[name] += 0 if row.inline else row.length + row.index_length
        return StoredBytes(topics=+topics, total=self._objects.total_size())

    async def forget_usage(self, older_than_ms: int, limit: int) -> int:
        before_ms = self._now_ms() - older_than_ms
        old = [key for key in sorted(self._usage) if key[0] < before_ms][:limit]
        for key in old:
            del self._usage[key]
        return len(old)


def _key(by: UsageBy, topic: str, client_id: str, hour_ms: int) -> str:
    match by:
        case UsageBy.TOPIC:
            return topic
        case UsageBy.CLIENT:
            return client_id
        case UsageBy.DAY:
            return f"{datetime.fromtimestamp(hour_ms / 1000, UTC):%Y-%m-%d}"


def _requests(counts: UsageCounts) -> float:
    return counts.puts + counts.lists + counts.gets
