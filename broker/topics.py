"""The topics as this broker knows them: a copy of what Postgres says, brought up to date on demand.

A name that is not known is looked for in Postgres before it is called unknown; what other brokers
changed arrives with the next poll, or at once with `refresh` (topic_news.py). A change made here is
known here when its answer is sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from uuid import UUID

import structlog

from broker.configs.broker_configs import BrokerConfig
from broker.metadata_answers import EncodedAnswers
from broker.shared_load import SharedLoad, shared_task
from broker.topic_lookups import TopicLookups
from broker.topic_names import TopicNames
from broker.topic_news import TopicNews
from protocol.ids import Partition
from storage.configs.topic_configs import TopicConfig, readable_topic_config
from storage.errors import ConfigsChanged, UnknownPartition
from storage.log import Log
from storage.metadata.port import MetadataStore
from storage.metadata.topics import Topic
from storage.partition_log import PartitionLog

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic with its configs parsed and its partitions' logs at hand."""

    topic: Topic
    config: TopicConfig
    logs: tuple[PartitionLog, ...]

    def log(self, index: int) -> PartitionLog | None:
        """Return the log of a partition; None if the topic has no such partition."""
        return self.logs[index] if 0 <= index < len(self.logs) else None


class Topics:
    """All topics, by name and by id.

    Attributes:
        answers: to Metadata requests, dropped with every change here.
        names: of all of them.
        change_count: grows with every change here.
    """

    def __init__(self, metadata: MetadataStore, storage: Log, broker: BrokerConfig) -> None:
        self._storage = storage
        self._broker = broker
        self._by_name: dict[str, KnownTopic] = {}
        self._by_id: dict[UUID, KnownTopic] = {}
        self._watchers: list[Callable[[], None]] = []
        self.answers = EncodedAnswers()
        self.names = TopicNames()
        self.change_count = 0
        self._news = TopicNews(
            metadata,
            by_id=self._by_id,
            by_name=self._by_name,
            put=self._put,
            remove=self._remove,
        )
        self._loading = SharedLoad(self._news.load)
        self._lookups = TopicLookups(self.refresh)
        self._looking: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        """Return the version of the metadata that this copy was last brought up to."""
        return self._news.version

    def all(self) -> Iterable[KnownTopic]:
        return self._by_name.values()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after every change of a topic, from whichever broker it came."""
        self._watchers.append(watcher)

    def get(self, name: str) -> KnownTopic | None:
        """Return a topic that is known already."""
        return self._by_name.get(name)

    def get_by_id(self, topic_id: UUID) -> KnownTopic | None:
        """Return a topic that is known already."""
        return self._by_id.get(topic_id)

    async def find(self, name: str = "", topic_id: UUID | None = None) -> KnownTopic | None:
        """Return the topic with that id or name, after a lookup in Postgres if need be.

        Only a lookup that began after a client has asked tells that there is none. One is enough
        for all that its request asks for.

        Raises:
            MetadataUnavailable: it is not known here, and there was no answer.
        """
        found = self._known(name, topic_id)
        if found is None:
            await self._lookups.look_up_once()
            found = self._known(name, topic_id)
        return found

    def _known(self, name: str, topic_id: UUID | None) -> KnownTopic | None:
        return self._by_name.get(name) if topic_id is None else self._by_id.get(topic_id)

    async def grown(self, topic: KnownTopic, indexes: Iterable[int]) -> KnownTopic:
        """Return the topic with the partitions that it has by now, if it lacks one of these here.

        Another broker may just have added it: clients that know it from there give up if it is
        called unknown.

        Raises:
            MetadataUnavailable: it lacks one, and there was no answer.
        """
        if max(indexes, default=0) < len(topic.logs):
            return topic
        await self._lookups.look_up_once()
        return self._by_id.get(topic.topic.topic_id, topic)

    async def added_log(self, topic: KnownTopic, index: int) -> PartitionLog | None:
        """Return the log of a partition that a topic lacks here, if it has it by now.

        Raises:
            MetadataUnavailable: there was no answer.
        """
        return (await self.grown(topic, (index,))).log(index)

    async def look_again(self) -> None:
        """Look for what a client knows and this broker does not; see TopicLookups.

        Raises:
            MetadataUnavailable: no answer.
        """
        await self._lookups.look_up()

    def look_soon(self) -> None:
        """Look while nobody waits: what was refused may come again, and rests on old news here."""
        if self._looking is None or self._looking.done():
            self._looking = shared_task(self._lookups.look_up())

    async def refresh(self) -> None:
        """Bring the copy up to date with what was changed before this call.

        Raises:
            MetadataUnavailable: no answer; the copy stays as it was.
        """
        await self._loading.run()

    async def change(self, change: Awaitable[Topic], of: Topic | None = None) -> KnownTopic:
        """Create or alter a topic, and take note of it; raises what `change` raises.

        Others may have changed it, too, before the answer came, so the next poll goes back to
        where this began.

        Args:
            change: what does it in Postgres.
            of: the topic as it is known here, if the change rests on that. When Postgres says that
                it is another, the next refresh brings how it is.
        """
        before = self._news.version
        try:
            topic = await change
        except (ConfigsChanged, UnknownPartition):
            if of is not None:
                self._news.doubt(of)
            raise
        self._lookups.created()
        self._news.changed_here(topic.topic_id, before)
        return self._put(topic)

    def deleted(self, topic_id: UUID) -> None:
        """Take note of a topic that was deleted here."""
        self._news.changed_here(topic_id)
        self._remove(topic_id)

    def follow(self, broker: BrokerConfig) -> None:
        """Let topics follow other broker configs from now on."""
        if broker.topic_values == self._broker.topic_values:
            return
        self._broker = broker
        configs: dict[frozenset[tuple[str, str]], TopicConfig] = {}  # few, while topics are many
        for known in list(self._by_id.values()):
            own = frozenset(known.topic.configs.items())
            if own not in configs:
                configs[own] = self._config_of(known.topic)
            changed = replace(known, config=configs[own])
            self._by_id[changed.topic.topic_id] = changed
            if self._by_name.get(changed.topic.name) is known:
                self._by_name[changed.topic.name] = changed

    def _config_of(self, topic: Topic) -> TopicConfig:
        if not topic.configs:
            return self._broker.topic_defaults
        config, problems = readable_topic_config(topic.configs, self._broker.topic_values)
        if problems:
            log.warning("topic configs do not count", topic=topic.name, reason="; ".join(problems))
        return config

    def _put(self, topic: Topic) -> KnownTopic:
        known = self._by_id.get(topic.topic_id)
        if known is not None and known.topic.name != topic.name:
            self._forget_name(known)
        logs = tuple(
            self._storage.partition(Partition(topic.topic_id, index))
            for index in range(topic.partition_count)
        )
        self.answers.clear()
        known = KnownTopic(topic, self._config_of(topic), logs)
        self._by_name[topic.name] = self._by_id[topic.topic_id] = known
        self.names.add(topic.name)
        self._tell_watchers()
        return known

    def _remove(self, topic_id: UUID) -> None:
        """Forget a topic that is gone; its name may belong to a younger one already."""
        self.answers.clear()
        known = self._by_id.pop(topic_id, None)
        if known is not None:
            self._forget_name(known)
        self._storage.forget_topic(topic_id)
        self._tell_watchers()

    def _forget_name(self, known: KnownTopic) -> None:
        if self._by_name.get(known.topic.name) is known:
            del self._by_name[known.topic.name]
            self.names.remove(known.topic.name)

    def _tell_watchers(self) -> None:
        self.change_count += 1
        for watcher in self._watchers:
            watcher()

    def name_of(self, topic_id: UUID) -> str:
        """Return the topic's name; empty if it is gone."""
        known = self._by_id.get(topic_id)
        return "" if known is None else known.topic.name

    async def poll(self) -> None:
        """Follow the changes of other brokers until cancelled."""
        await self._loading.poll("topics")
