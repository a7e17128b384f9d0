"""A copy of all topics: what each one's configs ask of the background work.

A topic whose stored configs cannot be read (a later version of the broker wrote them) has no policy
here: nothing is done to it, and everything to the others.
"""

import asyncio
from collections.abc import Iterable, Mapping
from uuid import UUID

import structlog

from protocol.compression import Codec
from storage.configs.config_types import InvalidConfig, shortened, told_of
from storage.configs.topic_config_table import PRODUCER_COMPRESSION, TOPIC_CONFIGS, UNCOMPRESSED
from storage.configs.topic_configs import TopicValues, read_topic_config
from storage.metadata.port import MetadataStore
from storage.metadata.topics import Topic
from storage.upkeep.policies import TopicPolicy

log = structlog.get_logger()


def topic_policy(topic: Topic, defaults: TopicValues) -> TopicPolicy:
    """Return what a topic asks for.

    Args:
        topic: as it is stored.
        defaults: of the brokers (cluster_config_table.topic_defaults).

    Raises:
        InvalidConfig: one of its configs cannot be read, or is not known.
    """
    if strange := sorted(topic.configs.keys() - TOPIC_CONFIGS.keys()):
        raise InvalidConfig(told_of(strange, shortened))
    config = read_topic_config(topic.configs, defaults)
    return TopicPolicy(
        name=topic.name,
        partition_count=topic.partition_count,
        configs=dict(topic.configs),
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        codec=_codec(config.compression_type),
        compression_level=config.compression_level,
        compact=config.compact,
        delete=config.delete,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        delete_retention_ms=config.delete_retention_ms,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
    )


def _codec(compression_type: str) -> Codec | None:
    if compression_type == PRODUCER_COMPRESSION:
        return None
    if compression_type == UNCOMPRESSED:
        return Codec.NONE
    return Codec[compression_type.upper()]


class TopicPolicies:
    """All topics as of the last refresh."""

    def __init__(self, metadata: MetadataStore, defaults: TopicValues) -> None:
        self._metadata = metadata
        self._defaults = defaults
        self._topics: dict[UUID, Topic] = {}
        self._policies: dict[UUID, TopicPolicy] = {}
        self._version = 0
        self._server = 0
        self._turn = asyncio.Lock()

    async def refresh(self) -> None:
        """Bring the copy up to date.

        Raises:
            MetadataUnavailable: no answer; the copy stays as it was.
        """
        async with self._turn:  # else an older answer may come after a newer one
            since = self._version
            changes = await self._metadata.topic_changes(since)
            if changes.may_contradict(since, self._server):
                changes = await self._metadata.topic_changes(0)
                self._policies.clear()
                self._topics.clear()
            for topic_id in changes.deleted:
                self._policies.pop(topic_id, None)
                self._topics.pop(topic_id, None)
            for topic in changes.changed:
                self._take(topic)
            self._version = changes.version
            self._server = changes.server

    def follow(self, defaults: TopicValues) -> None:
        """Let topics follow other defaults from now on."""
        if defaults == self._defaults:
            return
        self._defaults = defaults
        for topic in self._topics.values():
            self._take(topic)

    @property
    def topics(self) -> Mapping[UUID, Topic]:
        """All of them, also those without a policy."""
        return self._topics

    def get(self, topic_id: UUID) -> TopicPolicy | None:
        """Return a topic's policy; None if it is not known (yet), gone, or cannot be read."""
        return self._policies.get(topic_id)

    def all(self) -> Iterable[tuple[UUID, TopicPolicy]]:
        """Return every topic that has a policy."""
        return tuple(self._policies.items())

    def _take(self, topic: Topic) -> None:
        self._topics[topic.topic_id] = topic
        try:
            self._policies[topic.topic_id] = topic_policy(topic, self._defaults)
        except InvalidConfig as invalid:
            self._policies.pop(topic.topic_id, None)
            log.warning("no upkeep of a topic", topic=topic.name, reason=str(invalid))
