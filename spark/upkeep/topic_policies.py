"""What topics' configs ask of the background work, as brokers understand them.

A config's value comes from the first place that has one: the topic, what is set of the whole
cluster while brokers run (KIP-226), what brokers are started with (`--set`), Kafka's default. The
third is known to brokers only, so a job is told it, too.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

import structlog

from storage.configs.cluster_config_table import CLUSTER_CONFIGS, DYNAMIC_CONFIGS, topic_defaults
from storage.configs.config_types import ConfigValue, InvalidConfig, parse_values, unknown_name
from storage.configs.topic_configs import TopicValues
from storage.configs.topic_policies import TopicPolicies
from storage.metadata.entity_configs import Entity, EntityKind
from storage.metadata.port import MetadataStore
from storage.upkeep.policies import TopicPolicy

CLUSTER_WIDE: Final = Entity(EntityKind.BROKER, "")

log = structlog.get_logger()


class ClusterPolicies:
    """The policies of all topics, and what is set of the cluster, as of the last refresh.

    Attributes:
        unread: what is set of the cluster and could not be read, and why; what stands in for it may
            keep less.
    """

    def __init__(self, metadata: MetadataStore, started_with: Mapping[str, str]) -> None:
        """Take what brokers are started with, by Kafka's names.

        Raises:
            InvalidConfig: brokers refuse one of these values.
        """
        self.unread: tuple[str, ...] = ()
        self._metadata = metadata
        self._started_with = read_started_with(started_with)
        self._policies = TopicPolicies(metadata, self._defaults({}))
        self._version = 0
        self._server = 0

    async def refresh(self) -> None:
        """Bring the copy up to date.

        Raises:
            MetadataUnavailable: no answer; the copy stays as it was, or topics do.
        """
        since = self._version
        changes = await self._metadata.entity_config_changes(since)
        if changes.may_contradict(since, self._server):
            changes = await self._metadata.entity_config_changes(0)
            self._follow(changes.configs.get(CLUSTER_WIDE, {}))
        elif CLUSTER_WIDE in changes.configs:
            self._follow(changes.configs[CLUSTER_WIDE])
        self._version = changes.version
        self._server = changes.server
        await self._policies.refresh()

    def get(self, topic_id: UUID) -> TopicPolicy | None:
        """Return a topic's policy; None if it is gone, or cannot be read."""
        return self._policies.get(topic_id)

    def cleaning(self, topic_id: UUID) -> TopicPolicy | None:
        """Return the same for compaction; None as well while something may say to keep records."""
        return None if self.unread else self._policies.get(topic_id)

    def all(self) -> Iterable[tuple[UUID, TopicPolicy]]:
        """Return every topic that has a policy."""
        return self._policies.all()

    def name_of(self, topic_id: UUID) -> str:
        """Return a topic's name; its id if it is gone."""
        topic = self._policies.topics.get(topic_id)
        return str(topic_id) if topic is None else topic.name

    def wanted(self, names: Iterable[str]) -> Callable[[UUID], bool]:
        """Return what tells topics of these names; every topic if there are none.

        Raises:
            LookupError: there is no such topic.
        """
        chosen = set(names)
        if not chosen:
            return lambda _: True
        found = {each.topic_id: each.name for each in self._policies.topics.values()}
        ids = {topic_id for topic_id, name in found.items() if name in chosen}
        if missing := chosen - set(found.values()):
            raise LookupError(f"there is no topic {', '.join(sorted(missing))}")
        return ids.__contains__

    def _follow(self, configs: Mapping[str, str]) -> None:
        cluster_wide, unread = parse_values(
            configs, DYNAMIC_CONFIGS, lambda name: unknown_name("broker", name, DYNAMIC_CONFIGS)
        )
        self.unread = tuple(unread)
        if unread:
            log.warning("dynamic configs do not count", reason="; ".join(unread))
        self._policies.follow(self._defaults(cluster_wide))

    def _defaults(self, cluster_wide: Mapping[str, ConfigValue]) -> TopicValues:
        kafka = {name: key.default for name, key in CLUSTER_CONFIGS.items()}
        return topic_defaults({**kafka, **self._started_with, **cluster_wide})


def read_started_with(started_with: Mapping[str, str]) -> Mapping[str, ConfigValue]:
    """Return what topics follow of brokers' settings; those about something else do not count.

    Raises:
        InvalidConfig: brokers refuse one of these values.
    """
    values, problems = parse_values(started_with, CLUSTER_CONFIGS, None)
    if problems:
        raise InvalidConfig(problems)
    return values
