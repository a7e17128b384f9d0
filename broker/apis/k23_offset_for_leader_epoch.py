"""OffsetForLeaderEpoch: v2-4 (KIP-101, KIP-320).

No log is ever truncated here (D1): all of it is of one epoch, which ends where the log ends, and no
consumer is told to go back. An older leader epoch fences nobody.

ACLs: DESCRIBE on each topic, or CLUSTER_ACTION, as followers have it.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.cluster import LOG_EPOCH
from broker.fresh_offsets import refresh_topics
from broker.gradual import Gradually
from broker.refusals import Refusal, code_of
from broker.requests import NOT_THROTTLED, Request
from broker.topics import KnownTopic
from protocol.acl import Operation, ResourceType
from storage.errors import MetadataUnavailable

_UNKNOWN: Final = -1
_DENIED: Final = ErrorCode.topic_authorization_failed


async def handle(request: Request) -> Payload:
    """Answer each partition by itself."""
    body, types, gradually = request.decode(), request.types, Gradually()
    denied = set[str]()
    if not request.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, audit=False):
        denied = {
            asked.topic
            async for asked in gradually.each(body.topics)
            if not request.allows(Operation.DESCRIBE, ResourceType.TOPIC, asked.topic)
        }
    known, unavailable = await refresh_topics(
        request,
        (
            (asked.topic, [one.partition for one in asked.partitions])
            for asked in body.topics
            if asked.topic not in denied
        ),
    )
    topics = []
    async for asked in gradually.each(body.topics):
        topic = known.get(asked.topic)
        refusal = Refusal(_DENIED) if asked.topic in denied else unavailable
        partitions = await gradually.made(
            _answer(request, topic, partition, refusal) for partition in asked.partitions
        )
        topics.append(types.OffsetForLeaderTopicResult(topic=asked.topic, partitions=partitions))
    response: Payload = types.OffsetForLeaderEpochResponse(
        throttle_time=NOT_THROTTLED, topics=tuple(topics)
    )
    return response


def _answer(
    request: Request,
    topic: KnownTopic | None,
    asked: Any,
    refusal: MetadataUnavailable | Refusal | None,
) -> object:
    code, epoch, end_offset = ErrorCode.none, _UNKNOWN, _UNKNOWN
    log = None if topic is None else topic.log(asked.partition)
    if refusal is not None:
        code = code_of(refusal)
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
