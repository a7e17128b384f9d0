"""OffsetCommit: v2-10.

v6 leader epochs (KIP-320), v7 static members (KIP-345), v8 flexible, v9 members of consumer groups
(KIP-848), v10 topic ids.

One statement at most: what several clients commit at a time goes together (broker/group_writes.py).
Who is no member (generation -1) commits to a group without members only, and makes it if need be.
Not done: retention_time (v2-4), which Kafka ignores as well.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.group_requests import outcome_of
from broker.group_runner import Committer
from broker.offset_requests import AskedTopic, look_up_topics
from broker.requests import NOT_THROTTLED, Request
from protocol.ids import Partition
from storage.errors import MetadataUnavailable
from storage.groups import CommittedOffset

_FIRST_OF_CONSUMER_GROUPS: Final = 9

Line = Partition | ErrorCode
"""A partition that is to be committed, or why it cannot be."""

Outcome = frozenset[Partition] | ErrorCode | None


async def handle(request: Request) -> Awaitable[Payload] | Payload:
    """Commit what can be; each partition answers for itself."""
    body = request.decode()
    try:
        topics = await look_up_topics(request, body.topics)
    except MetadataUnavailable:
        code = ErrorCode.coordinator_not_available
        topics = [AskedTopic(asked, None) for asked in body.topics]
        return _response(request, topics, [[code] * len(one.asked.partitions) for one in topics])
    lines = [_lines(request, topic) for topic in topics]
    committer = Committer(
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
        generation_id=body.generation_id_or_member_epoch,
    )
    offsets = _offsets(topics, lines)
    if not offsets and not any(ErrorCode.offset_metadata_too_large in line for line in lines):
        return _response(request, topics, lines)  # no topic that there is: nobody's business
    answer = request.services.groups.commit(body.group_id, committer, offsets)
    return _respond(request, topics, lines, answer)


def _lines(request: Request, topic: AskedTopic) -> list[Line]:
    longest = request.services.config.offset_metadata_max_bytes
    lines: list[Line] = []
    for asked in topic.asked.partitions:
        line = topic.partition(asked.partition_index)
        if isinstance(line, Partition) and len(asked.committed_metadata or "") > longest:
            line = ErrorCode.offset_metadata_too_large
        lines.append(line)
    return lines


def _offsets(
    topics: Sequence[AskedTopic], lines: Sequence[Sequence[Line]]
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


async def _respond(
    request: Request,
    topics: Sequence[AskedTopic],
    lines: Sequence[Sequence[Line]],
    awaited: Awaitable[frozenset[Partition] | None],
) -> Payload:
    outcome: Outcome = await outcome_of(awaited)
    if outcome is None or isinstance(outcome, ErrorCode):
        code = _code_of(request, outcome)
        lines = [[_unless_known(line, code) for line in of_topic] for of_topic in lines]
    else:
        gone = outcome
        unknown = ErrorCode.unknown_topic_or_partition
        lines = [[unknown if line in gone else line for line in of_topic] for of_topic in lines]
    return _response(request, topics, lines)


def _unless_known(line: Line, code: ErrorCode) -> ErrorCode:
    """Return the group's error for all but partitions that do not exist, as Kafka does."""
    too_large = ErrorCode.offset_metadata_too_large
    return code if isinstance(line, Partition) or line is too_large else line


def _code_of(request: Request, outcome: ErrorCode | None) -> ErrorCode:
    """Return the code that this version knows for what befell the whole group."""
    new = request.version >= _FIRST_OF_CONSUMER_GROUPS
    if outcome is None:
        return ErrorCode.group_id_not_found if new else ErrorCode.illegal_generation
    if outcome is ErrorCode.stale_member_epoch and not new:
        return ErrorCode.unsupported_version
    return outcome


def _response(
    request: Request, topics: Sequence[AskedTopic], lines: Sequence[Sequence[Any]]
) -> Payload:
    types = request.types
    answered = [
        types.OffsetCommitResponseTopic(
            **topic.identity,
            partitions=tuple(
                types.OffsetCommitResponsePartition(
                    partition_index=asked.partition_index,
                    error_code=line if isinstance(line, ErrorCode) else ErrorCode.none,
                )
                for asked, line in zip(topic.asked.partitions, of_topic, strict=True)
            ),
        )
        for topic, of_topic in zip(topics, lines, strict=True)
    ]
    response: Payload = types.OffsetCommitResponse(
        throttle_time=NOT_THROTTLED, topics=tuple(answered)
    )
    return response
