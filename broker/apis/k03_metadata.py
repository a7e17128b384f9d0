"""Metadata: v0-13.

v1 null topics is all (v0: an empty list), v4 auto creation flag, v7 leader epochs, v9 flexible,
v10-12 topic ids (KIP-516), v13 a top-level error code.

Clients ask the same thing again and again, so encoded answers are kept until a topic or the set of
brokers changes. A client whose client.id holds rack=NAME is told the owners in that rack as
leaders: any broker can append, and traffic between racks costs money.
Not done: authorised operations of topics (no authoriser).
"""

import asyncio
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.cluster import Cluster
from broker.refusals import CONDITIONS, Refusal, code_of
from broker.requests import NOT_THROTTLED, Request
from broker.topics import KnownTopic
from protocol.codec import encode_response
from protocol.topics import name_problem
from storage.errors import TopicAlreadyExists

_FIRST_NULL_IS_ALL: Final = 1
_MANY: Final = 500


async def handle(request: Request) -> Payload | bytes:
    """Describe the brokers and the topics asked for."""
    answers, cluster = request.services.topics.answers, request.services.cluster
    rack = cluster.rack_of(request.header.client_id)
    key = (cluster.listener, rack, request.version, bytes(request.frame[request.header.body :]))
    known = answers.get(key)
    if known is not None:
        return known[:4] + request.header.correlation_id.to_bytes(4, signed=True) + known[8:]
    body = request.decode()
    generation, cluster = answers.generation, cluster.frozen()
    topics, complete = await _topics(request, body, cluster)
    response = _response(request, topics, cluster)
    if len(topics) < _MANY:
        encoded = encode_response(request.header.correlation_id, response)
    else:
        encoded = await asyncio.to_thread(encode_response, request.header.correlation_id, response)
    if complete and generation == answers.generation:
        answers.put(key, encoded)
    return encoded


def _response(request: Request, topics: list[object], cluster: Cluster) -> Payload:
    types = request.types
    brokers = tuple(
        types.MetadataResponseBroker(
            node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
        )
        for node in cluster.nodes
    )
    response: Payload = types.MetadataResponse(
        throttle_time=NOT_THROTTLED,
        brokers=brokers,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller.node_id,
        topics=tuple(topics),
        cluster_authorized_operations=-(2**31),
        error_code=ErrorCode.none,
    )
    return response


async def _topics(request: Request, body: Any, cluster: Cluster) -> tuple[list[object], bool]:
    """Return the topics' part of the answer, and whether every one was found.

    With many partitions that takes a while, so now and then others have their turn.
    """
    asked = body.topics
    if asked is None or (request.version < _FIRST_NULL_IS_ALL and not asked):
        described = []
        partitions = 0
        for topic in tuple(request.services.topics.all()):
            described.append(_describe(request, topic, cluster))
            partitions += len(topic.logs)
            if partitions >= _MANY:
                partitions = 0
                await asyncio.sleep(0)
        return described, True
    topics, complete = [], True
    may_create = getattr(body, "allow_auto_topic_creation", True)
    for one in asked:
        topic_id = getattr(one, "topic_id", None) or None
        name = one.name or ""
        try:
            found = await _find(request, name, topic_id, may_create)
            topics.append(_describe(request, found, cluster))
        except CONDITIONS as condition:
            complete = False
            topics.append(
                request.types.MetadataResponseTopic(
                    error_code=code_of(condition),
                    name=one.name if topic_id is None else None,
                    topic_id=topic_id,
                    is_internal=False,
                    partitions=(),
                )
            )
    return topics, complete


async def _find(request: Request, name: str, topic_id: UUID | None, may_create: bool) -> KnownTopic:
    services = request.services
    if topic_id is not None:
        topic = await services.topics.find(topic_id=topic_id)
        if topic is None:
            raise Refusal(ErrorCode.unknown_topic_id)
        return topic
    if problem := name_problem(name):
        raise Refusal(ErrorCode.invalid_topic_exception, problem)
    topic = await services.topics.find(name)
    if topic is not None:
        return topic
    if not (may_create and services.config.auto_create_topics_enable):
        raise Refusal(ErrorCode.unknown_topic_or_partition)
    try:
        created = await services.metadata.create_topic(
            name,
            partition_count=services.config.num_partitions,
            replication_factor=services.config.default_replication_factor,
            configs={},
        )
    except TopicAlreadyExists:  # another client was faster
        await services.topics.refresh()
        topic = services.topics.get(name)
        if topic is None:
            raise Refusal(ErrorCode.leader_not_available) from None
        return topic
    return services.topics.changed(created)


def _describe(request: Request, topic: KnownTopic, cluster: Cluster) -> object:
    types = request.types
    rack = cluster.rack_of(request.header.client_id)
    partitions = tuple(
        types.MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=log.partition.index,
            **cluster.placement(log.partition, topic.topic.replication_factor, rack),
        )
        for log in topic.logs
    )
    return types.MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=topic.topic.name,
        topic_id=topic.topic.topic_id,
        is_internal=False,
        partitions=partitions,
        topic_authorized_operations=-(2**31),
    )
