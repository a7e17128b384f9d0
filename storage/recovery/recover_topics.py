"""Which topics there were, as objects tell."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from storage.wal_index import WalIndex

_NEVER: Final = -1


@dataclass(slots=True)
class FoundTopic:
    """A topic, as its newest object tells.

    Attributes:
        name: empty if none told.
        partition_count: at least; it may have had more, without records.
        configs: None if no built segment was found: then nobody tells them.
        folder: of its segments; empty if it has none.
        seen_ms: when the newest object was stored; -1 if none has records of it.
    """

    name: str = ""
    partition_count: int = 0
    configs: dict[str, str] | None = None
    folder: str = ""
    seen_ms: int = _NEVER
    configs_ms: int = _NEVER


@dataclass(slots=True)
class _Told:
    """Attributes: is_deleted: it was, when one of the objects was stored."""

    name: str = ""
    partition_count: int = 0
    is_deleted: bool = False
    told_ms: int = _NEVER


class ToldTopics:
    """Topics of which objects tell that have no records of them: which offsets they have given.

    Retention may have emptied them since.
    """

    def __init__(self) -> None:
        self._told: dict[UUID, _Told] = {}

    def take(self, index: WalIndex) -> None:
        """Take note of what an object tells."""
        places = {(topic, partition) for topic, partition, *_ in index.places}
        for position, partition in places | {(one.topic, one.partition) for one in index.endings}:
            topic_id, name = index.topics[position]
            told = self._told.setdefault(topic_id, _Told())
            told.name = name or told.name
            told.is_deleted |= not name
            told.partition_count = max(told.partition_count, partition + 1)
            told.told_ms = max(told.told_ms, index.written_ms)

    def add_to(self, topics: dict[UUID, FoundTopic]) -> None:
        """Add what is told to the topics that have records, and those that were not deleted."""
        for topic_id, told in sorted(self._told.items(), key=lambda item: item[1].told_ms):
            if topic_id not in topics:
                if told.is_deleted:
                    continue
                topics[topic_id] = FoundTopic(name=told.name)
            found = topics[topic_id]
            found.partition_count = max(found.partition_count, told.partition_count)
