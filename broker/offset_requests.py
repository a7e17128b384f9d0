"""What the APIs of committed offsets have in common: partitions by topic name or topic id."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.requests import Request
from broker.topics import KnownTopic
from protocol.ids import Partition


@dataclass(frozen=True, slots=True)
class AskedTopic:
    """A topic as a request names it, and which one that is.

    Attributes:
        asked: the request's own entity.
        known: None if there is no such topic.
    """

    asked: Any
    known: KnownTopic | None

    @property
    def identity(self) -> dict[str, str | UUID | None]:
        """Return the fields that name the topic in the response."""
        name = getattr(self.asked, "name", None)
        return {"topic_id": self.asked.topic_id} if name is None else {"name": name}

    @property
    def unknown_code(self) -> ErrorCode:
        """Return what answers a topic that does not exist."""
        by_id = getattr(self.asked, "name", None) is None
        return ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition

    def partition(self, index: int) -> Partition | ErrorCode:
        """Return a partition, or what answers one that does not exist."""
        if self.known is None:
            return self.unknown_code
        log = self.known.log(index)
        return ErrorCode.unknown_topic_or_partition if log is None else log.partition


async def look_up_topics(request: Request, topics: Iterable[Any]) -> list[AskedTopic]:
    """Return the topics of a request, in order: by id from v10 of the APIs on, else by name.

    Raises:
        MetadataUnavailable: one is not known here, and Postgres could not be asked.
    """
    find = request.services.topics.find
    found = []
    for asked in topics:
        name, topic_id = getattr(asked, "name", None), getattr(asked, "topic_id", None)
        known = None
        if name is not None:
            known = await find(name)
        elif topic_id is not None:
            known = await find(topic_id=topic_id)
        found.append(AskedTopic(asked, known))
    return found
