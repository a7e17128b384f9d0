"""DescribeTopicPartitions: v0 (KIP-966). Topics in the order of their names, page by page.

A page holds max.request.partition.size.limit partitions at most. Any broker can lead any partition
(D1), so there are no eligible leaders to be told of besides the replicas.

ACLs: DESCRIBE on each topic; where all are asked for, the others are left out.
"""

from collections.abc import Container, Iterable
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.security.authorized_operations import NOT_ASKED, authorized_operations
from broker.topic_pages import Cursor, page_of
from broker.topics import KnownTopic
from protocol.acl import Operation, ResourceType
from protocol.topics import name_problem


async def handle(request: Request) -> Payload:
    """Describe the topics asked for, or all of them, from the cursor on."""
    body, gradually = request.decode(), Gradually()
    found = await _topics(request, body, gradually)
    counts = {
        name: len(topic.logs) if isinstance(topic, KnownTopic) else 0
        for name, topic in found.items()
    }
    largest = request.services.config.max_request_partition_size_limit
    try:
        _check_cursor(body, found)
        limit = min(body.response_partition_limit, largest)
        page = await request.aside(partial(page_of, counts, _cursor(body), limit=limit))
    except Refusal as refusal:
        code = refusal.code
        refused = await gradually.made(_refused(request, name, code) for name in found)
        return _response(request, refused, None)
    topics = [
        _describe(request, topic, span)
        if isinstance(topic := found[name], KnownTopic)
        else _refused(request, name, topic)
        async for name, span in gradually.each(page.spans.items())
    ]
    return _response(request, topics, page.following)


async def _topics(
    request: Request, body: Any, gradually: Gradually
) -> dict[str, KnownTopic | ErrorCode]:
    topics = request.services.topics
    found: dict[str, KnownTopic | ErrorCode] = {}
    if not body.topics:
        async for known in gradually.each(tuple(topics.all())):
            name = known.topic.name
            if request.allows(Operation.DESCRIBE, ResourceType.TOPIC, name, audit=False):
                found[name] = known
        return found
    async for asked in gradually.each(body.topics):
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


def _response(request: Request, topics: Iterable[object], following: Cursor | None) -> Payload:
    types = request.types
    response: Payload = types.DescribeTopicPartitionsResponse(
        throttle_time=NOT_THROTTLED,
        topics=tuple(topics),
        next_cursor=following
        and types.Cursor(topic_name=following.topic, partition_index=following.partition),
    )
    return response
