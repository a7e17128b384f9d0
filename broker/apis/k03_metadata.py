"""Metadata: v0-13.

v1 null topics is all (v0: an empty list), v4 auto creation flag, v7 leader epochs, v8 authorised
operations (KIP-430; those of the cluster up to v10), v9 flexible, v10-12 topic ids (KIP-516), v13 a
top-level error code.

Clients ask the same thing again and again, so encoded answers are kept until a topic or the set of
brokers changes. A client whose client.id holds rack=NAME is told the owners in that rack as
leaders: any broker can append, and traffic between racks costs money.

ACLs: DESCRIBE on each topic; where all are asked for, the others are left out. A topic that is not
there is made with CREATE on it or on the cluster. Where ACLs decide, an answer is kept for clients
of the same user and host only.
"""

import asyncio
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.cluster import NOBODY, Cluster
from broker.gradual import Gradually
from broker.network.answer_when import Answer
from broker.refusals import CONDITIONS, Refusal, code_of
from broker.requests import NOT_THROTTLED, Request
from broker.security.authorized_operations import (
    NOT_ASKED,
    authorized_operations,
    cluster_operations,
)
from broker.security.topic_access import find_topic
from broker.sent_away import send_away
from broker.topics import KnownTopic
from broker.unasked_topics import NEVER_UNASKED, create_unasked
from protocol.acl import Operation, ResourceType
from protocol.metadata_response import (
    BrokerAnswer,
    MetadataAnswer,
    PartitionAnswer,
    TopicAnswer,
    encode_metadata,
)
from protocol.topics import name_problem

_FIRST_NULL_IS_ALL: Final = 1
_ID_IN_ANSWERS_ONLY: Final = (10, 11)  # topics could not yet be asked for by it (KIP-516)
_FIRST_LISTENER_NOT_FOUND: Final = 6
_MANY: Final = 500
_LARGE_BYTES: Final = 4_096
_HEAD_BYTES: Final = 16  # with the throttle time

CUT_OFF_THROTTLE_MS: Final = 1_000
"""For it a Java client asks other brokers, as it does if one is over its quota (KIP-219). It would
go on asking this one, which leads nothing and so has the least to do of all."""


async def handle(request: Request) -> Payload | Answer:
    """Describe the brokers and the topics asked for."""
    answers, cluster = request.services.topics.answers, request.services.cluster
    if cluster.brokers.is_cut_off:
        send_away(request)
    rack = cluster.rack_of(request.header.client_id)
    asker = None
    if request.services.authorizer.enabled:
        asker = f"{request.session.host} {request.session.principal}"
    question = bytes(request.frame[request.header.body :])
    key = (cluster.listener, rack, request.version, question, asker)
    known = answers.get(key)
    if known is not None:
        head = known[:4] + request.header.correlation_id.to_bytes(4, signed=True)
        if len(known) < _LARGE_BYTES:
            return head + known[8:]
        # the same memory for all who have yet to take it, but for what a quota may change
        return [head + known[8:_HEAD_BYTES], memoryview(known)[_HEAD_BYTES:]]
    body = request.decode()
    if request.version in _ID_IN_ANSWERS_ONLY and not all(map(_is_by_name, body.topics or ())):
        return await request.aside(_invalid, request, body)
    generation, cluster = answers.generation, cluster.frozen()
    topics, complete = await _topics(request, body, cluster)
    answer = _answer(request, body, topics, cluster)
    frame = request.header.correlation_id, request.version, answer
    if len(topics) < _MANY:
        encoded = encode_metadata(*frame)
    else:
        encoded = await asyncio.to_thread(encode_metadata, *frame)
    if complete and generation == answers.generation:
        answers.put(key, encoded)
    return encoded


def _is_by_name(asked: Any) -> bool:
    return not asked.topic_id and asked.name is not None


def _invalid(request: Request, body: Any) -> Payload:
    """Refuse the whole request; there is only each topic's error code to do it with."""
    types = request.types
    topics = tuple(
        types.MetadataResponseTopic(
            error_code=ErrorCode.invalid_request,
            name=asked.name or "",
            topic_id=asked.topic_id,
            is_internal=False,
            partitions=(),
        )
        for asked in body.topics
    )
    response: Payload = types.MetadataResponse(
        throttle_time=NOT_THROTTLED, brokers=(), cluster_id=None, controller_id=-1, topics=topics
    )
    return response


def _answer(
    request: Request, body: Any, topics: list[TopicAnswer], cluster: Cluster
) -> MetadataAnswer:
    asked = getattr(body, "include_cluster_authorized_operations", False)
    return MetadataAnswer(
        brokers=[
            BrokerAnswer(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in cluster.nodes
        ],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller.node_id,
        topics=topics,
        operations=cluster_operations(request, asked=asked),
        throttle_ms=CUT_OFF_THROTTLE_MS if cluster.brokers.is_cut_off else 0,
    )


async def _topics(request: Request, body: Any, cluster: Cluster) -> tuple[list[TopicAnswer], bool]:
    """Return the topics' part of the answer, and whether every one was found.

    A topic is described once, however often it is named: an answer must not be larger than the
    topics that there are.
    """
    asked = body.topics
    tells_operations = getattr(body, "include_topic_authorized_operations", False)
    if asked is None or (request.version < _FIRST_NULL_IS_ALL and not asked):
        return await _all_topics(request, cluster, tells_operations=tells_operations), True
    topics: list[TopicAnswer] = []
    complete = True
    partitions = 0
    answered: set[UUID | str | None] = set()
    may_create = getattr(body, "allow_auto_topic_creation", True)
    async for one in Gradually().each(asked):
        topic_id = getattr(one, "topic_id", None) or None
        name = one.name or ""
        if (topic_id or one.name) in answered:
            continue
        answered.add(topic_id or one.name)
        try:
            found = await _find(request, name, topic_id, may_create)
            partitions += len(found.logs)
            if partitions >= _MANY:
                partitions = 0
                await asyncio.sleep(0)
            topics.append(
                await _describe(request, found, cluster, tells_operations=tells_operations)
            )
        except CONDITIONS as condition:
            complete = False
            topics.append(
                TopicAnswer(
                    error_code=code_of(condition),
                    name=one.name if topic_id is None else None,
                    topic_id=topic_id,
                    partitions=(),
                    operations=NOT_ASKED,
                )
            )
    return topics, complete


async def _all_topics(
    request: Request, cluster: Cluster, *, tells_operations: bool
) -> list[TopicAnswer]:
    """Return all topics that the client may know of.

    With many partitions that takes a while, so now and then others have their turn.
    """
    described: list[TopicAnswer] = []
    partitions = 0
    restricted = request.services.authorizer.enabled
    for topic in tuple(request.services.topics.all()):
        partitions += len(topic.logs)
        if partitions >= _MANY:
            partitions = 0
            await asyncio.sleep(0)
        if restricted and not request.allows(
            Operation.DESCRIBE, ResourceType.TOPIC, topic.topic.name, audit=False
        ):
            continue
        described.append(
            await _describe(request, topic, cluster, tells_operations=tells_operations)
        )
    return described


async def _find(request: Request, name: str, topic_id: UUID | None, may_create: bool) -> KnownTopic:
    services = request.services
    if topic_id is not None:
        topic = await find_topic(request, Operation.DESCRIBE, topic_id=topic_id)
        if topic is None:
            raise Refusal(ErrorCode.unknown_topic_id)
        return topic
    request.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)
    problem = name_problem(name)
    topic = None if problem else await services.topics.find(name)
    if topic is not None:
        return topic
    creates = may_create and services.config.auto_create_topics_enable and name not in NEVER_UNASKED
    if creates and not request.allows(Operation.CREATE, ResourceType.CLUSTER, audit=False):
        request.authorize(Operation.CREATE, ResourceType.TOPIC, name)
    if problem:
        raise Refusal(ErrorCode.invalid_topic_exception, problem)
    if not creates:
        raise Refusal(ErrorCode.unknown_topic_or_partition)
    return await create_unasked(request, name)


async def _describe(
    request: Request, topic: KnownTopic, cluster: Cluster, *, tells_operations: bool
) -> TopicAnswer:
    operations = NOT_ASKED
    if tells_operations:
        operations = authorized_operations(request, ResourceType.TOPIC, topic.topic.name)
    rack = cluster.rack_of(request.header.client_id)
    no_leader = ErrorCode.leader_not_available
    if request.version >= _FIRST_LISTENER_NOT_FOUND and not cluster.brokers.is_cut_off:
        no_leader = ErrorCode.listener_not_found
    partitions: list[PartitionAnswer] = []
    for log in topic.logs:
        place = cluster.place(log.partition, topic.topic.replication_factor, rack)
        code = no_leader if place.leader_id == NOBODY else ErrorCode.none
        partitions.append(PartitionAnswer(code, log.partition.index, place))
        if len(partitions) % _MANY == 0:
            await asyncio.sleep(0)
    return TopicAnswer(
        error_code=ErrorCode.none,
        name=topic.topic.name,
        topic_id=topic.topic.topic_id,
        partitions=partitions,
        operations=operations,
    )
