"""What Postgres says of topics that is new to this broker, taken over into its copy (topics.py).

Other brokers change topics, and so does this one while an answer is on its way; and Postgres may go
back, to a standby that has not heard of the latest changes.
"""

from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import UUID

from broker.gradual import Gradually
from storage.metadata.port import MetadataStore
from storage.metadata.topics import Topic, TopicChanges

News = dict[UUID, Topic | None]
"""Topics as they are, by id; None if one is gone."""


class Known(Protocol):
    """A topic in the copy."""

    @property
    def topic(self) -> Topic: ...


class TopicNews:
    """Brings the copy up to date.

    Args:
        by_id, by_name: the copy.
        put, remove: change it by one topic.

    Attributes:
        version: of the metadata that the copy was last brought up to.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        *,
        by_id: Mapping[UUID, Known],
        by_name: Mapping[str, Known],
        put: Callable[[Topic], object],
        remove: Callable[[UUID], None],
    ) -> None:
        self._metadata = metadata
        self._by_id = by_id
        self._by_name = by_name
        self._put = put
        self._remove = remove
        self.version = 0
        self._server = 0
        self._changed_here: set[UUID] = set()
        self._doubted: list[Topic] = []

    def changed_here(self, topic_id: UUID, since: int | None = None) -> None:
        """Take note of a change of this broker's, which answers that are on their way may lack.

        Args:
            topic_id: of the topic.
            since: the version when it began, if others may have changed the topic meanwhile: the
                next poll goes back to it.
        """
        self._changed_here.add(topic_id)
        if since is not None:
            self.version = min(self.version, since)

    def doubt(self, topic: Topic) -> None:
        """Take note that Postgres says a topic is another than the copy has."""
        self._doubted.append(topic)

    async def load(self) -> None:
        """Take over what changed.

        Read all anew if Postgres may have gone back, to a standby: it is another server, its
        version is older, or it refuses what rests on a topic as it is known here, and has no news
        of that topic.
        """
        begin = self.version
        doubted, self._doubted = self._doubted, []
        while True:
            version = await self._load_since(begin)
            if version is None:
                begin = self.version = 0  # if this does not end, the next one must read all, too
            elif begin > 0 and any(self._is_known(topic.topic_id, topic) for topic in doubted):
                begin, doubted = 0, []
            elif self.version < begin:  # a change here began before, and so may news of its topic
                begin = self.version
            else:
                self.version = version
                return

    async def _load_since(self, begin: int) -> int | None:
        """Take over what changed since a version, and what was changed here meanwhile, too.

        Topics that are made here all the time do not keep this from its end: what no answer has
        is younger than the answer.

        Returns:
            The version that the copy has come to; None if Postgres may have gone back.
        """
        since, news, unsettled = begin, News(), News()
        while True:
            self._changed_here.clear()
            changes = await self._metadata.topic_changes(since)
            if changes.may_contradict(since, self._server):
                return None
            self._server = changes.server
            latest = unsettled | self._said_of_each(changes, all_topics=since == 0)
            await self._take(latest)
            news |= latest
            unsettled = self._unsettled(news) if self._changed_here else {}
            if not unsettled:
                return changes.version
            since = changes.version

    def _said_of_each(self, changes: TopicChanges, *, all_topics: bool) -> News:
        """Return what an answer says of each topic."""
        changed = {topic.topic_id: topic for topic in changes.changed}
        gone = self._by_id.keys() - changed.keys() if all_topics else changes.deleted
        return {**changed, **dict.fromkeys(gone)}

    async def _take(self, news: News) -> None:
        """Take over news, but for what was changed here since they were asked for.

        New topics come before old ones go, so that a name which passes from one to another is
        known all the time.
        """
        gradually = Gradually()
        async for topic in gradually.each(topic for topic in news.values() if topic is not None):
            holder = self._by_name.get(topic.name)
            ids = {topic.topic_id} if holder is None else {topic.topic_id, holder.topic.topic_id}
            if self._changed_here.isdisjoint(ids) and (holder is None or holder.topic != topic):
                self._put(topic)
        gone = [topic_id for topic_id, topic in news.items() if topic is None]
        async for topic_id in gradually.each(gone):
            if topic_id not in self._changed_here:
                self._remove(topic_id)

    def _unsettled(self, news: News) -> News:
        """Return the news that are not so here: they, or what was changed here, are older."""
        return {
            topic_id: topic
            for topic_id, topic in news.items()
            if not self._is_known(topic_id, topic)
        }

    def _is_known(self, topic_id: UUID, topic: Topic | None) -> bool:
        """Whether it is known here just like that, or not at all if it is None."""
        known = self._by_id.get(topic_id) if topic is None else self._by_name.get(topic.name)
        there = None if known is None else known.topic
        return there is topic or there == topic  # of very many, most are the same object
