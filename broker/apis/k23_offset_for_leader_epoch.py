"""OffsetForLeaderEpoch: v2-4 (KIP-101, KIP-320).

No log is ever truncated here (D1): all of it is of one epoch, which ends where the log ends, and no
consumer is told to go back. An older leader epoch fences nobody.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.cluster import LOG_EPOCH
from broker.refusals import code_of
from broker.requests import NOT_THROTTLED, Request
from broker.topics import KnownTopic
from storage.errors import MetadataUnavailable

_UNKNOWN: Final = -1


async def handle(request: Request) -> Payload:
    """Answer each partition by itself."""
    body, types = request.decode(), request.types
    topics = []
    for asked in body.topics:
        topic, unavailable = await _find(request, asked)
        partitions = tuple(
            _answer(request, topic, partition, unavailable) for partition in asked.partitions
        )
        topics.append(types.OffsetForLeaderTopicResult(topic=asked.topic, partitions=partitions))
    response: Payload = types.OffsetForLeaderEpochResponse(
        throttle_time=NOT_THROTTLED, topics=tuple(topics)
    )
    return response


async def _find(
    request: Request, asked: Any
) -> tuple[KnownTopic | None, MetadataUnavailable | None]:
    """Return the topic, its offsets up to date, or what each partition tells if that failed."""
    try:
        topic = await request.services.topics.find(asked.topic)
        if topic is not None:
            found = (topic.log(partition.partition) for partition in asked.partitions)
            await request.services.log.refresh([log for log in found if log is not None])
    except MetadataUnavailable as unavailable:
        return None, unavailable
    return topic, None


def _answer(
    request: Request,
    topic: KnownTopic | None,
    asked: Any,
    unavailable: MetadataUnavailable | None,
) -> object:
    code, epoch, end_offset = ErrorCode.none, _UNKNOWN, _UNKNOWN
    log = None if topic is None else topic.log(asked.partition)
    if unavailable is not None:
        code = code_of(unavailable)
    elif log is None or log.removed:
        code = ErrorCode.unknown_topic_or_partition
    else:
        newest = request.services.cluster.generation
        if asked.current_leader_epoch > newest:
            code = ErrorCode.unknown_leader_epoch
        elif 0 <= asked.leader_epoch <= newest:
            epoch, end_offset = LOG_EPOCH, log.high_watermark
    return request.types.EpochEndOffset(
        error_code=code, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset
    )
