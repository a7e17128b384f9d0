"""What the APIs of committed offsets have in common.

Partitions by topic name or topic id; and of those that commit or delete, one line for each
partition: whose offset that is, or the code that answers it.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.gradual import Gradually
from broker.requests import Request
from broker.topics import KnownTopic
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition
from storage.metadata.groups import CommittedOffset

Line = Partition | ErrorCode
"""A partition whose offset is to be committed or deleted, or why it cannot be."""

Lines = Sequence[Sequence[Line]]
"""Of all partitions of a request, by topic."""


@dataclass(frozen=True, slots=True)
class AskedTopic:
    """A topic as a request names it, and which one that is.

    Attributes:
        asked: the request's own entity.
        known: None if there is no such topic.
        is_denied: whether ACLs keep the client from it, whether or not there is such a topic.
    """

    asked: Any
    known: KnownTopic | None
    is_denied: bool = False

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

    @property
    def is_larger(self) -> bool:
        """Whether the client knows of more partitions than this broker."""
        if self.known is None:
            return False
        asked = self.asked
        lines = asked.partition_indexes if hasattr(asked, "partition_indexes") else asked.partitions
        return any(self.known.log(getattr(one, "partition_index", one)) is None for one in lines)

    def partition(self, index: int) -> Partition | ErrorCode:
        """Return a partition, or what answers one that does not exist, or not for this client."""
        if self.is_denied:
            return ErrorCode.topic_authorization_failed
        if self.known is None:
            return self.unknown_code
        log = self.known.log(index)
        return ErrorCode.unknown_topic_or_partition if log is None else log.partition


async def look_up_topics(
    request: Request, topics: Iterable[Any], operation: Operation | None
) -> list[AskedTopic]:
    """Return the topics of a request, in order: by id from v10 of the APIs on, else by name.

    A partition that is not known here may just have been added by another broker, or its topic been
    made again: Java's commitSync gives up if that is called unknown.

    Args:
        request: who asks.
        topics: its entities.
        operation: what the client needs to be allowed to do with each of them.

    Raises:
        MetadataUnavailable: one is not known here, and Postgres could not be asked.
    """
    found = await _look_up_all(request, topics, operation)
    if await request.aside(_any_larger, found):
        await request.services.topics.look_again()
        found = await _look_up_all(request, topics, operation)
    return found


async def _look_up_all(
    request: Request, topics: Iterable[Any], operation: Operation | None
) -> list[AskedTopic]:
    gradually = Gradually()
    return [await _look_up(request, asked, operation) async for asked in gradually.each(topics)]


def _any_larger(topics: Iterable[AskedTopic]) -> bool:
    return any(topic.is_larger for topic in topics)


async def moved_partitions(
    request: Request, topics: Sequence[AskedTopic], gone: Collection[Partition]
) -> Mapping[Partition, Partition]:
    """Return what takes the place of partitions that are gone, if their topics were made again.

    A client that names a topic by its name means the one that has it now.

    Raises:
        MetadataUnavailable: nobody knows.
    """
    names = {
        topic.known.topic.topic_id: topic.asked.name
        for topic in topics
        if topic.known is not None and getattr(topic.asked, "name", None) is not None
    }
    mine = [partition for partition in gone if partition.topic_id in names]
    if not mine:
        return {}
    await request.services.topics.look_again()
    moved = {}
    for partition in mine:
        known = request.services.topics.get(names[partition.topic_id])
        log = None if known is None else known.log(partition.index)
        if log is not None and log.partition != partition:
            moved[partition] = log.partition
    return moved


async def _look_up(request: Request, asked: Any, operation: Operation | None) -> AskedTopic:
    find = request.services.topics.find
    name, topic_id = getattr(asked, "name", None), getattr(asked, "topic_id", None)
    known = None
    if name is None and topic_id is not None:
        known = await find(topic_id=topic_id)
        name = known and known.topic.name
    if name is None:
        return AskedTopic(asked, None)  # an id without a topic tells nothing
    if operation is not None and not request.allows(operation, ResourceType.TOPIC, name):
        return AskedTopic(asked, known, is_denied=True)
    return AskedTopic(asked, known or await find(name))


def commit_lines(request: Request, topics: Sequence[AskedTopic]) -> Lines:
    """Return which partitions of a commit exist and have a note that is short enough."""
    longest = request.services.config.offset_metadata_max_bytes

    def line_of(topic: AskedTopic, asked: Any) -> Line:
        line = topic.partition(asked.partition_index)
        if isinstance(line, Partition) and len(asked.committed_metadata or "") > longest:
            return ErrorCode.offset_metadata_too_large
        return line

    return [[line_of(topic, asked) for asked in topic.asked.partitions] for topic in topics]


def concern_group(lines: Lines) -> bool:
    """Whether the group has to be asked; not if no partition is there, or none for this client."""
    too_large = ErrorCode.offset_metadata_too_large
    return any(
        isinstance(line, Partition) or line is too_large for of_topic in lines for line in of_topic
    )


def offsets_to_commit(
    topics: Sequence[AskedTopic], lines: Lines
) -> Mapping[Partition, CommittedOffset]:
    return {
        line: CommittedOffset(
            offset=asked.committed_offset,
            leader_epoch=getattr(asked, "committed_leader_epoch", -1),
            metadata=asked.committed_metadata or "",
        )
        for topic, of_topic in zip(topics, lines, strict=True)
        for asked, line in zip(topic.asked.partitions, of_topic, strict=True)
        if isinstance(line, Partition)
    }


def refused_lines(lines: Lines, code: ErrorCode) -> Lines:
    """Return the group's error for all but partitions that have one already, as Kafka does."""

    def refused(line: Line) -> ErrorCode:
        too_large = ErrorCode.offset_metadata_too_large
        return code if isinstance(line, Partition) or line is too_large else line

    return [[refused(line) for line in of_topic] for of_topic in lines]


def written_lines(lines: Lines, gone: Container[Partition]) -> Lines:
    """Return what answers a commit that was done, but for partitions that turned out to be gone."""
    unknown = ErrorCode.unknown_topic_or_partition
    return [[unknown if line in gone else line for line in of_topic] for of_topic in lines]


def coded_topics(
    topics: Sequence[AskedTopic], lines: Lines, make_topic: Any, make_partition: Any
) -> tuple[Any, ...]:
    """Return the topics of a response whose partitions have an index and an error code."""
    return tuple(
        make_topic(
            **topic.identity,
            partitions=tuple(
                make_partition(
                    partition_index=asked.partition_index,
                    error_code=line if isinstance(line, ErrorCode) else ErrorCode.none,
                )
                for asked, line in zip(topic.asked.partitions, of_topic, strict=True)
            ),
        )
        for topic, of_topic in zip(topics, lines, strict=True)
    )
