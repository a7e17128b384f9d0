"""The metadata port's topics: which there are, and what is set of them.

Contract, checked for Postgres and the in-memory fake by tests/contracts/test_metadata_topics.py:
- A name is one live topic's; a topic that is made again under it has another id.
- Who asks for changes since the version of the answer before misses none, unless another server
  answers: a standby that was promoted may have lost that version, and given it again since. Who
  reads everything then misses nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from storage.metadata.changes import Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as its creator asked for it.

    Attributes:
        replication_factor: accepted and reported; durability is the object store's (D1).
        configs: only what was set explicitly, by Kafka's names (retention.ms ...).
    """

    topic_id: UUID
    name: str
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChanges(Changes):
    """What happened to topics since some version of the metadata.

    Attributes:
        changed: topics created or altered, as they are now.
        deleted: ids of topics that are gone.
    """

    changed: Sequence[Topic]
    deleted: Sequence[UUID]


class TopicStore(Protocol):
    """Part of MetadataStore; see the module's docstring for what every implementation promises."""

    async def topic_changes(self, since_version: int) -> TopicChanges:
        """Return all topics (since_version=0), or what changed after that version."""

    async def create_topic(
        self,
        name: str,
        *,
        partition_count: int,
        replication_factor: int,
        configs: Mapping[str, str],
    ) -> Topic:
        """Create a topic and its partitions, all empty.

        Raises:
            TopicAlreadyExists: a live topic has that name.
        """

    async def delete_topic(self, topic_id: UUID) -> None:
        """Remove a topic, its partitions and their index at once; bytes go later (the sweeper).

        Raises:
            UnknownPartition: no such topic.
        """

    async def add_partitions(self, topic_id: UUID, partition_count: int) -> Topic:
        """Raise the partition count to `partition_count`; existing data stays where it is.

        Raises:
            UnknownPartition: no such topic.
            InvalidPartitionCount: it has that many already, or more.
        """

    async def alter_topic_configs(
        self,
        topic_id: UUID,
        changes: Mapping[str, str | None],
        *,
        replace: bool,
        expected: Mapping[str, str] | None = None,
    ) -> Topic:
        """Set (a string) or unset (None) configs; `replace` unsets all that are not named.

        Args:
            topic_id: of the topic.
            changes: by name.
            replace: see above.
            expected: all that has to be set of the topic as yet; None is whatever is.

        Raises:
            ConfigsChanged: something else is set of it; nothing was changed.
            UnknownPartition: no such topic.
        """
