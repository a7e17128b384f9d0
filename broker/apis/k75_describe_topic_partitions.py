"""DescribeTopicPartitions: v0 (KIP-966). Topics in the order of their names, page by page.

A page holds max.request.partition.size.limit partitions at most. Any broker can lead any partition
(D1), so there are no eligible leaders to be told of besides the replicas.

ACLs: DESCRIBE on each topic; where all are asked for, the others are left out.
"""

import asyncio
from collections.abc import Container
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.security.authorized_operations import NOT_ASKED, authorized_operations
from broker.topic_pages import Cursor, page_of
from broker.topics import KnownTopic
from protocol.acl import Operation, ResourceType
from protocol.topics import name_problem

_MANY: Final = 500
"""Topics that are looked at in one turn of the event loop."""


async def handle(request: Request) -> Payload:
    """Describe the topics asked for, or all of them, from the cursor on."""
    body = request.decode()
    found = await _topics(request, body)
    counts = {
        name: len(topic.logs) if isinstance(topic, KnownTopic) else 0
        for name, topic in found.items()
    }
    largest = request.services.config.max_request_partition_size_limit
    try:
        _check_cursor(body, found)
        page = page_of(counts, _cursor(body), limit=min(body.response_partition_limit, largest))
    except Refusal as refusal:
        return _response(request, [_refused(request, name, refusal.code) for name in found], None)
    topics = [
        _describe(request, topic, span)
        if isinstance(topic := found[name], KnownTopic)
        else _refused(request, name, topic)
        for name, span in page.spans.items()
    ]
    return _response(request, topics, page.following)


async def _topics(request: Request, body: Any) -> dict[str, KnownTopic | ErrorCode]:
    topics = request.services.topics
    found: dict[str, KnownTopic | ErrorCode] = {}
    if not body.topics:
        for at, known in enumerate(tuple(topics.all()), start=1):
            name = known.topic.name
            if request.allows(Operation.DESCRIBE, ResourceType.TOPIC, name, audit=False):
                found[name] = known
            if at % _MANY == 0:
                await asyncio.sleep(0)
        return found
    for asked in body.topics:
        if not request.allows(Operation.DESCRIBE, ResourceType.TOPIC, asked.name):
            found[asked.name] = ErrorCode.topic_authorization_failed
            continue
        if name_problem(asked.name):
            found[asked.name] = ErrorCode.invalid_topic_exception
            continue
        try:
            topic = await topics.find(asked.name)
        except CONDITIONS as condition:
            found[asked.name] = refusal_of(condition).code
        else:
            found[asked.name] = topic or ErrorCode.unknown_topic_or_partition
    return found


def _cursor(body: Any) -> Cursor | None:
    return body.cursor and Cursor(body.cursor.topic_name, body.cursor.partition_index)


def _check_cursor(body: Any, found: Container[str]) -> None:
    """Refuse a cursor to none of the topics that are named; among all of them, it may be gone."""
    if body.topics and body.cursor and body.cursor.topic_name not in found:
        code = ErrorCode.invalid_request
        raise Refusal(code, f"The cursor's topic {body.cursor.topic_name} is not asked for.")


def _describe(request: Request, topic: KnownTopic, span: range) -> object:
    types, cluster = request.types, request.services.cluster
    rack = cluster.rack_of(request.header.client_id)
    partitions = tuple(
        types.DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.none,
            partition_index=log.partition.index,
            eligible_leader_replicas=(),
            last_known_elr=(),
            **cluster.placement(log.partition, topic.topic.replication_factor, rack),
        )
        for log in topic.logs[span.start : span.stop]
    )
    return types.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=topic.topic.name,
        topic_id=topic.topic.topic_id,
        is_internal=False,
        partitions=partitions,
        topic_authorized_operations=authorized_operations(
            request, ResourceType.TOPIC, topic.topic.name
        ),
    )


def _refused(request: Request, name: str, code: ErrorCode) -> object:
    unknown = code is ErrorCode.unknown_topic_or_partition  # what one might do if it were there
    operations = NOT_ASKED
    if unknown:
        operations = authorized_operations(request, ResourceType.TOPIC, name)
    return request.types.DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=None,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _response(request: Request, topics: list[object], following: Cursor | None) -> Payload:
    types = request.types
    response: Payload = types.DescribeTopicPartitionsResponse(
        throttle_time=NOT_THROTTLED,
        topics=tuple(topics),
        next_cursor=following
        and types.Cursor(topic_name=following.topic, partition_index=following.partition),
    )
    return response
