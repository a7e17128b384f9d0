"""AlterPartitionReassignments: v0-1 (KIP-455). v1 may forbid other numbers of replicas (KIP-860).

Where a partition is follows from the set of live brokers (D1), so nothing moves by request. To ask
for what is there already is done at once. Anything else is refused with INVALID_REPLICA_ASSIGNMENT:
accepted and left undone, Cruise Control would ask again for ever, and kafka-reassign-partitions
--verify would report a failure without a reason.

ACLs: ALTER on the cluster.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.topics import KnownTopic


async def handle(request: Request) -> Payload:
    """Accept what is so, and refuse all else; each partition answers for itself."""
    body = request.decode()
    gradually = Gradually()
    topics = [await _topic(request, body, one, gradually) for one in body.topics]
    return _response(request, body, None, topics)


def refuse(request: Request, refusal: Refusal) -> Payload:
    """Answer the request, and each partition, with the refusal."""
    body = request.decode()
    topics = [_refused(request, asked, refusal) for asked in body.topics]
    return _response(request, body, refusal, topics)


def _response(
    request: Request, body: Any, refusal: Refusal | None, topics: Iterable[object]
) -> Payload:
    response: Payload = request.types.AlterPartitionReassignmentsResponse(
        throttle_time=NOT_THROTTLED,
        allow_replication_factor_change=getattr(body, "allow_replication_factor_change", True),
        error_code=refusal.code if refusal else ErrorCode.none,
        error_message=str(refusal) if refusal else None,
        responses=tuple(topics),
    )
    return response


def _refused(request: Request, asked: Any, refusal: Refusal) -> object:
    return request.types.ReassignableTopicResponse(
        name=asked.name,
        partitions=tuple(
            _result(request, one, refusal.code, str(refusal)) for one in asked.partitions
        ),
    )


async def _topic(request: Request, body: Any, asked: Any, gradually: Gradually) -> object:
    topic: KnownTopic | Refusal | None
    try:
        topic = await request.services.topics.find(asked.name)
    except CONDITIONS as condition:
        topic = refusal_of(condition)
    may_change_count = getattr(body, "allow_replication_factor_change", True)
    partitions = await gradually.made(
        _partition(request, asked.name, topic, one, may_change_count=may_change_count)
        for one in asked.partitions
    )
    return request.types.ReassignableTopicResponse(name=asked.name, partitions=partitions)


def _partition(
    request: Request,
    name: str,
    topic: KnownTopic | Refusal | None,
    asked: Any,
    *,
    may_change_count: bool,
) -> object:
    try:
        if isinstance(topic, Refusal):
            raise topic
        _check(request, name, topic, asked, may_change_count=may_change_count)
    except Refusal as refusal:
        return _result(request, asked, refusal.code, str(refusal))
    return _result(request, asked, ErrorCode.none, None)


def _check(
    request: Request, name: str, topic: KnownTopic | None, asked: Any, *, may_change_count: bool
) -> None:
    """Check that the replicas asked for are those that are there."""
    log = None if topic is None else topic.log(asked.partition_index)
    if topic is None or log is None:
        message = f"There is no partition {asked.partition_index} of a topic {name}."
        raise Refusal(ErrorCode.unknown_topic_or_partition, message)
    if asked.replicas is None:
        raise Refusal(ErrorCode.no_reassignment_in_progress, "Nothing is on its way.")
    cluster = request.services.cluster
    membership = cluster.brokers.membership
    known = {one.node_id for one in (*membership.brokers, *membership.dead)}
    if problem := _problem(asked.replicas, known):
        raise Refusal(ErrorCode.invalid_replica_assignment, problem)
    rack = cluster.rack_of(request.header.client_id)
    replicas = cluster.brokers.replicas(log.partition, topic.topic.replication_factor, rack)
    if len(asked.replicas) != len(replicas) and not may_change_count:
        message = f"The partition has {len(replicas)} replicas, not {len(asked.replicas)}."
        raise Refusal(ErrorCode.invalid_replication_factor, message)
    if tuple(asked.replicas) != replicas:
        raise Refusal(
            ErrorCode.invalid_replica_assignment,
            f"The partition stays on {list(replicas)}: in this cluster the live brokers share the "
            "partitions by a hash, and their data is in the object store, not on brokers.",
        )


def _problem(replicas: Sequence[int], known: set[int]) -> str:
    """Return what no cluster could do; empty if it is a list of known brokers, alive or not."""
    if not replicas:
        return "A partition needs a replica."
    if len(set(replicas)) < len(replicas):
        return "A broker is named twice."
    if unknown := sorted(set(replicas) - known):
        return f"There is no broker {', '.join(map(str, unknown))}."
    return ""


def _result(request: Request, asked: Any, code: ErrorCode, message: str | None) -> object:
    return request.types.ReassignablePartitionResponse(
        partition_index=asked.partition_index, error_code=code, error_message=message
    )
