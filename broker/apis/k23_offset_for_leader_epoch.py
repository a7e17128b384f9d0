"""OffsetForLeaderEpoch: v2-4 (KIP-101, KIP-320).

No log is ever truncated here (D1), so the end of any epoch up to ours is the end of the log, and no
consumer is told to go back.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

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
        topic = await request.services.topics.find(asked.topic)
        unavailable = await _refresh(request, topic, asked)
        partitions = tuple(
            _answer(request, topic, partition, unavailable) for partition in asked.partitions
        )
        topics.append(types.OffsetForLeaderTopicResult(topic=asked.topic, partitions=partitions))
    response: Payload = types.OffsetForLeaderEpochResponse(
        throttle_time=NOT_THROTTLED, topics=tuple(topics)
    )
    return response


async def _refresh(
    request: Request, topic: KnownTopic | None, asked: Any
) -> MetadataUnavailable | None:
    """Bring the partitions' offsets up to date; return what each has to tell if that failed."""
    if topic is None:
        return None
    found = (topic.log(partition.partition) for partition in asked.partitions)
    try:
        await request.services.log.refresh([log for log in found if log is not None])
    except MetadataUnavailable as unavailable:
        return unavailable
    return None


def _answer(
    request: Request,
    topic: KnownTopic | None,
    asked: Any,
    unavailable: MetadataUnavailable | None,
) -> object:
    code, epoch, end_offset = ErrorCode.none, _UNKNOWN, _UNKNOWN
    log = None if topic is None else topic.log(asked.partition)
    if log is None or log.removed:
        code = ErrorCode.unknown_topic_or_partition
    elif unavailable is not None:
        code = code_of(unavailable)
    else:
        ours = request.services.cluster.leader_epoch(log)
        if 0 <= asked.current_leader_epoch < ours:
            code = ErrorCode.fenced_leader_epoch
        elif asked.current_leader_epoch > ours:
            code = ErrorCode.unknown_leader_epoch
        elif 0 <= asked.leader_epoch <= ours:
            epoch, end_offset = asked.leader_epoch, log.high_watermark
    return request.types.EpochEndOffset(
        error_code=code, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset
    )
