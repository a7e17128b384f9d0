"""What topics' configs ask of the background work, as brokers understand them.

A config's value comes from the first place that has one: the topic, what is set of the whole
cluster while brokers run (KIP-226), what brokers are started with (`--set`), Kafka's default. The
third is known to brokers only, so a job is told it, too. Topics whose configs cannot be read (a
later version of the broker wrote them) have no policy, and nothing is done to them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog

from protocol.compression import Codec
from storage.entity_configs import Entity, EntityKind
from storage.metadata import MetadataStore, Topic
from storage.policies import UNLIMITED, TopicPolicy

CLUSTER_WIDE: Final = Entity(EntityKind.BROKER, "")

_HOUR_MS: Final = 60 * 60 * 1000
_DAY_MS: Final = 24 * _HOUR_MS
_LONG_MAX: Final = 2**63 - 1
_CLEANER: Final = "log.cleaner."

# By the topic's name for it: what brokers call it, and what it is where nobody says anything.
_CONFIGS: Final = {
    "cleanup.policy": ("log.cleanup.policy", "delete"),
    "compression.gzip.level": ("compression.gzip.level", "-1"),
    "compression.lz4.level": ("compression.lz4.level", "9"),
    "compression.type": ("compression.type", "producer"),
    "compression.zstd.level": ("compression.zstd.level", "3"),
    "delete.retention.ms": (f"{_CLEANER}delete.retention.ms", str(_DAY_MS)),
    "max.compaction.lag.ms": (f"{_CLEANER}max.compaction.lag.ms", str(_LONG_MAX)),
    "min.cleanable.dirty.ratio": (f"{_CLEANER}min.cleanable.ratio", "0.5"),
    "min.compaction.lag.ms": (f"{_CLEANER}min.compaction.lag.ms", "0"),
    "retention.bytes": ("log.retention.bytes", "-1"),
    "retention.ms": ("log.retention.ms", str(7 * _DAY_MS)),
    "segment.bytes": ("log.segment.bytes", str(2**30)),
    "segment.ms": ("log.roll.ms", str(7 * _DAY_MS)),
}
# Kafka's coarser names, in the order in which they count, and their unit in milliseconds.
_COARSER: Final = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", _HOUR_MS)),
    "log.roll.ms": (("log.roll.hours", _HOUR_MS),),
}

log = structlog.get_logger()


def topic_policy(topic: Topic, brokers: Mapping[str, str]) -> TopicPolicy:
    """Return what a topic asks for.

    Args:
        topic: as it is stored.
        brokers: what is set of them, by Kafka's names.

    Raises:
        ValueError: one of its configs cannot be read.
    """
    values = {
        name: topic.configs[name].strip()
        if name in topic.configs
        else _default(broker_name, brokers, default)
        for name, (broker_name, default) in _CONFIGS.items()
    }
    cleanup = [one.strip() for one in values["cleanup.policy"].split(",")]
    compression = values["compression.type"]
    level = values.get(f"compression.{compression}.level")
    return TopicPolicy(
        name=topic.name,
        partition_count=topic.partition_count,
        configs=dict(topic.configs),
        segment_bytes=int(values["segment.bytes"]),
        segment_ms=int(values["segment.ms"]),
        codec=_codec(compression),
        compression_level=None if level is None else int(level),
        compact="compact" in cleanup,
        delete="delete" in cleanup,
        retention_ms=int(values["retention.ms"]),
        retention_bytes=max(int(values["retention.bytes"]), UNLIMITED),
        delete_retention_ms=int(values["delete.retention.ms"]),
        min_compaction_lag_ms=int(values["min.compaction.lag.ms"]),
        max_compaction_lag_ms=int(values["max.compaction.lag.ms"]),
        min_cleanable_dirty_ratio=float(values["min.cleanable.dirty.ratio"]),
    )


def _default(broker_name: str, brokers: Mapping[str, str], default: str) -> str:
    if broker_name in brokers:
        return brokers[broker_name].strip()
    for name, unit_ms in _COARSER.get(broker_name, ()):
        if name in brokers:
            value = int(brokers[name])
            return str(value if value == UNLIMITED else value * unit_ms)
    return default


def _codec(compression_type: str) -> Codec | None:
    match compression_type:
        case "producer":
            return None
        case "uncompressed":
            return Codec.NONE
        case name if name.upper() in Codec.__members__:
            return Codec[name.upper()]
        case name:
            raise ValueError(f"unknown compression.type {name!r}")


@dataclass(frozen=True, slots=True)
class _Versions:
    """How far a copy of the metadata has come."""

    topics: int = 0
    configs: int = 0


class TopicPolicies:
    """All topics, and what is set of the cluster, as of the last refresh.

    Args:
        started_with: what brokers are started with, by Kafka's names.
    """

    def __init__(self, metadata: MetadataStore, started_with: Mapping[str, str]) -> None:
        self._metadata = metadata
        self._started_with = started_with
        self._cluster_wide: Mapping[str, str] = {}
        self._topics: dict[UUID, Topic] = {}
        self._policies: dict[UUID, TopicPolicy] = {}
        self._versions = _Versions()

    async def refresh(self) -> None:
        """Bring the copy up to date.

        Raises:
            MetadataUnavailable: no answer; the copy stays as it was.
        """
        configs = await self._metadata.entity_config_changes(self._versions.configs)
        topics = await self._metadata.topic_changes(self._versions.topics)
        self._versions = _Versions(topics.version, configs.version)
        for topic_id in topics.deleted:
            self._topics.pop(topic_id, None)
            self._policies.pop(topic_id, None)
        self._topics |= {topic.topic_id: topic for topic in topics.changed}
        altered: Iterable[Topic] = topics.changed
        cluster_wide = configs.configs.get(CLUSTER_WIDE, self._cluster_wide)
        if cluster_wide != self._cluster_wide:
            self._cluster_wide = cluster_wide
            altered = self._topics.values()
        for topic in altered:
            self._take(topic)

    def get(self, topic_id: UUID) -> TopicPolicy | None:
        """Return a topic's policy; None if it is gone, or cannot be read."""
        return self._policies.get(topic_id)

    def all(self) -> Mapping[UUID, TopicPolicy]:
        """Return every topic that has a policy."""
        return self._policies

    def name_of(self, topic_id: UUID) -> str:
        """Return a topic's name; its id if it is gone."""
        topic = self._topics.get(topic_id)
        return str(topic_id) if topic is None else topic.name

    def wanted(self, names: Iterable[str]) -> Callable[[UUID], bool]:
        """Return what tells topics of these names; every topic if there are none.

        Raises:
            LookupError: there is no such topic.
        """
        chosen = set(names)
        if not chosen:
            return lambda _: True
        ids = {each.topic_id for each in self._topics.values() if each.name in chosen}
        missing = chosen - {self._topics[topic_id].name for topic_id in ids}
        if missing:
            raise LookupError(f"there is no topic {', '.join(sorted(missing))}")
        return ids.__contains__

    def _take(self, topic: Topic) -> None:
        brokers = {**self._started_with, **self._cluster_wide}
        try:
            self._policies[topic.topic_id] = topic_policy(topic, brokers)
        except ValueError as invalid:
            self._policies.pop(topic.topic_id, None)
            log.warning("no upkeep of a topic", topic=topic.name, reason=str(invalid))
