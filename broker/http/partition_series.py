"""What GET /metrics tells of partitions."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final
from uuid import UUID

from broker.http.exposition import Family, label_text
from storage.partition_log import PartitionLog

_PARTITION_OFFSETS: Final = {
    "log_start_offset": "First offset that can be read.",
    "high_watermark": "One past the last committed record.",
    "last_stable_offset": "Before it every transaction has ended.",
    "log_end_offset": "High watermark plus records in the write buffer.",
}
"""What is exported of a PartitionLog, by the name of its attribute."""


class PartitionSeries:
    """Offsets of the partitions that this broker has worked with since its start."""

    def __init__(
        self, logs: Callable[[], Iterable[PartitionLog]], name_of: Callable[[UUID], str]
    ) -> None:
        self._logs = logs
        self._name_of = name_of

    async def families(self) -> list[Family]:
        """Return them; the offsets are looked at when their lines are made."""
        logs = list(self._logs())
        return [
            Family(
                name=f"streamhouse_partition_{name}", text=text, samples=self._samples(logs, name)
            )
            for name, text in _PARTITION_OFFSETS.items()
        ]

    def _samples(self, logs: Iterable[PartitionLog], name: str) -> Iterator[tuple[str, float]]:
        for one in logs:
            topic = self._name_of(one.partition.topic_id)
            if topic and one.is_known:
                labels = label_text(topic=topic, partition=str(one.partition.index))
                yield labels, getattr(one, name)
