"""Which topics there were, as objects tell."""

from collections.abc import Mapping
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
        seen_ms: when the newest object was stored that has records of it, or tells of it.
        is_deleted: that is what its writer knew who told of it last.
    """

    name: str = ""
    partition_count: int = 0
    configs: dict[str, str] | None = None
    folder: str = ""
    seen_ms: int = _NEVER
    configs_ms: int = _NEVER
    is_deleted: bool = False


@dataclass(slots=True)
class _Told:
    """What writers' objects tell of a topic.

    Attributes:
        named_ms, unnamed_ms: when the last one was stored that has a name for it, or none.
    """

    name: str = ""
    partition_count: int = 0
    named_ms: int = _NEVER
    unnamed_ms: int = _NEVER

    @property
    def is_deleted(self) -> bool:
        """Whether it was when it was told of last; before, a broker may not have known it yet."""
        return self.unnamed_ms > _NEVER and self.unnamed_ms >= self.named_ms


class ToldTopics:
    """Topics of which writers' objects tell, also without records: which offsets they have given.

    Retention may have emptied them since.
    """

    def __init__(self) -> None:
        self._told: dict[UUID, _Told] = {}

    def take(self, index: WalIndex, stored_ms: int) -> None:
        """Take note of what an object tells.

        Args:
            index: of the object.
            stored_ms: when it was stored, by the store's clock; those of brokers may differ.
        """
        for topic_id, name in index.topics:
            told = self._told.setdefault(topic_id, _Told())
            if name:
                told.name, told.named_ms = name, max(told.named_ms, stored_ms)
            else:
                told.unnamed_ms = max(told.unnamed_ms, stored_ms)
        places = {(topic, partition) for topic, partition, *_ in index.places}
        for position, partition in places | {(one.topic, one.partition) for one in index.endings}:
            told = self._told[index.topics[position][0]]
            told.partition_count = max(told.partition_count, partition + 1)

    def add_to(self, topics: dict[UUID, FoundTopic]) -> None:
        """Add what is told to the topics that have records, and those that were not deleted."""
        for topic_id, told in self._told.items():
            if topic_id not in topics:
                if told.is_deleted:
                    continue
                topics[topic_id] = FoundTopic(name=told.name)
            found = topics[topic_id]
            found.partition_count = max(found.partition_count, told.partition_count)
            found.seen_ms = max(found.seen_ms, told.named_ms, told.unnamed_ms)
            found.is_deleted = told.is_deleted


def live_topics(topics: Mapping[UUID, FoundTopic]) -> tuple[dict[UUID, FoundTopic], list[str]]:
    """Return the topics that are live, by their names; and the others, with what is wrong.

    Of those of one name it is the one that was seen last, unless that is known to be deleted.
    """
    by_name: dict[str, UUID] = {}
    left_out: list[str] = []
    for topic_id, topic in sorted(
        topics.items(), key=lambda item: (not item[1].is_deleted, item[1].seen_ms)
    ):
        if not topic.name:
            left_out.append(f"{topic_id}: no object tells its name; it was deleted")
            continue
        if topic.name in by_name:
            left_out.append(f"{by_name[topic.name]}: deleted, and {topic.name} made again")
        by_name[topic.name] = topic_id
    return {topic_id: topics[topic_id] for _, topic_id in sorted(by_name.items())}, left_out
