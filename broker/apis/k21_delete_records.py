"""DeleteRecords: v0-2. v2 is flexible.

Records before the offset can no longer be read once the answer is sent; their bytes go later.
Offset -1 stands for the high watermark. What is before the log's start is gone already, so that the
answer is where the log starts. ACLs: DELETE on each topic. Not done: the timeout, as there are no
followers to wait for.
"""

from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import CONDITIONS, code_of
from broker.requests import NOT_THROTTLED, Request
from broker.security.topic_access import find_topic
from broker.topics import KnownTopic
from protocol.acl import Operation
from protocol.ids import Partition
from storage.partition_log import PartitionLog
from storage.partition_offsets import PartitionOffsets

HIGH_WATERMARK: Final = -1
_NONE: Final = -1

Line = PartitionLog | ErrorCode
"""A partition whose start may move, or why it may not."""


async def handle(request: Request) -> Payload:
    """Move the start of the logs that can be; each partition answers for itself."""
    body = request.decode()
    gradually = Gradually()
    lines = [await _lines(request, topic, gradually) for topic in body.topics]
    wanted = await request.aside(_wanted, body, lines)
    found: dict[Partition, PartitionOffsets] = {}
    failure = ErrorCode.unknown_topic_or_partition  # for what was deleted meanwhile
    try:
        if wanted:
            found = await request.services.metadata.delete_records(wanted)
    except CONDITIONS as condition:
        failure = code_of(condition)
    types, topics = request.types, list[object]()
    for topic, of_topic in zip(body.topics, lines, strict=True):
        partitions = await gradually.made(
            _answer(request, asked, line, found, failure)
            for asked, line in zip(topic.partitions, of_topic, strict=True)
        )
        topics.append(types.DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    response: Payload = types.DeleteRecordsResponse(
        throttle_time=NOT_THROTTLED, topics=tuple(topics)
    )
    return response


def _wanted(body: Any, lines: Sequence[Sequence[Line]]) -> dict[Partition, int]:
    """Return the offset that each log shall begin at."""
    return {
        line.partition: asked.offset
        for topic, of_topic in zip(body.topics, lines, strict=True)
        for asked, line in zip(topic.partitions, of_topic, strict=True)
        if isinstance(line, PartitionLog)
    }


async def _lines(request: Request, asked: Any, gradually: Gradually) -> Sequence[Line]:
    try:
        topic = await find_topic(request, Operation.DELETE, asked.name)
        if topic is not None:
            indexes = (one.partition_index for one in asked.partitions)
            topic = await request.services.topics.grown(topic, indexes)
    except CONDITIONS as condition:
        return [code_of(condition)] * len(asked.partitions)
    return await gradually.made(_line(request, topic, one) for one in asked.partitions)


def _line(request: Request, topic: KnownTopic | None, asked: Any) -> Line:
    log = None if topic is None else topic.log(asked.partition_index)
    if topic is None or log is None or log.removed:
        return ErrorCode.unknown_topic_or_partition
    if not request.services.cluster.serves(log.partition):
        return ErrorCode.not_leader_or_follower
    if topic.config.compact and not topic.config.delete:
        return ErrorCode.policy_violation  # its records are there until newer ones replace them
    if asked.offset < HIGH_WATERMARK:
        return ErrorCode.offset_out_of_range
    return log


def _answer(
    request: Request,
    asked: Any,
    line: Line,
    found: dict[Partition, PartitionOffsets],
    failure: ErrorCode,
) -> object:
    """Return where the log starts now, and take note of it; or why that was not moved."""
    code, start = ErrorCode.none, _NONE
    if isinstance(line, ErrorCode):
        code = line
    elif (offsets := found.get(line.partition)) is None:
        code = failure
    else:
        line.refresh(offsets)
        if asked.offset > offsets.high_watermark:
            code = ErrorCode.offset_out_of_range
        else:
            start = offsets.log_start_offset
    return request.types.DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=start, error_code=code
    )
