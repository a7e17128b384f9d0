"""Which topics there were, as objects tell."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from storage.wal_index import WalIndex

_NEVER: Final = -1

_MARGIN_MS: Final = 10_000
"""Brokers look for new and deleted topics each second, and a store may tell whole seconds."""


@dataclass(slots=True)
class FoundTopic:
    """A topic, as its newest object tells.

    Attributes:
        name: empty if none told.
        partition_count: at least; it may have had more, without records.
        configs: None if no built segment was found: then nobody tells them.
        folder: of its segments; empty if it has none.
        seen_ms: when the newest object was stored that has records of it; -1 if none has.
        is_deleted: that is what its writer knew who told of it last, long after it had a name.
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
        """Add what is told to the topics that have records, and those that were not deleted.

        Whoever has no name for a topic may not have known it yet, and who has one may not have
        heard that it was deleted: where records are at stake, it takes more than that.
        """
        for topic_id, told in sorted(self._told.items(), key=lambda item: item[1].named_ms):
            if topic_id not in topics:
                if told.unnamed_ms > _NEVER and told.unnamed_ms >= told.named_ms:
                    continue
                topics[topic_id] = FoundTopic(name=told.name)
            found = topics[topic_id]
            found.partition_count = max(found.partition_count, told.partition_count)
            named_ms = max(told.named_ms, found.configs_ms)
            found.is_deleted = told.unnamed_ms > named_ms + _MARGIN_MS


def live_topics(topics: Mapping[UUID, FoundTopic]) -> tuple[dict[UUID, FoundTopic], list[str]]:
    """Return the topics that are live, by their names; and the others, with what is wrong.

    Of those of one name it is the one that has the newest records, unless that is known to be
    deleted; of those without records the one that was told of last.
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
