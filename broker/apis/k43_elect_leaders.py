"""ElectLeaders: v0-2. v1 election types (KIP-460), v2 flexible.

A partition's leader is always the preferred one (D1), so no election is ever needed; of all
partitions (null), as in Kafka, that is not said one by one. Not done: the timeout.

ACLs: ALTER on the cluster.
"""

from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.topics import KnownTopic

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


async def handle(request: Request) -> Payload:
    """Tell of each partition why no leader is elected."""
    body, types = request.decode(), request.types
    election = getattr(body, "election_type", _PREFERRED)
    unknown = None
    if election not in (_PREFERRED, _UNCLEAN):
        unknown = Refusal(ErrorCode.invalid_request, f"There are no elections of type {election}.")
    if body.topic_partitions is None:
        topics = () if unknown else request.services.topics.all()
        results = [
            types.ReplicaElectionResult(topic=known.topic.name, partition_result=())
            for known in topics
        ]
    else:
        gradually = Gradually()
        results = [
            await _topic(request, asked, unknown, gradually)
            async for asked in gradually.each(body.topic_partitions)
        ]
    return _response(request, unknown.code if unknown else ErrorCode.none, results)


def refuse(request: Request, refusal: Refusal) -> Payload:
    """Answer each partition, and from v1 on the request, with the refusal."""
    results = [
        _result(request, asked, [_partition(request, one, refusal) for one in asked.partitions])
        for asked in request.decode().topic_partitions or ()
    ]
    return _response(request, refusal.code, results)


def _response(request: Request, code: ErrorCode, results: Iterable[object]) -> Payload:
    response: Payload = request.types.ElectLeadersResponse(
        throttle_time=NOT_THROTTLED, error_code=code, replica_election_results=tuple(results)
    )
    return response


async def _topic(
    request: Request, asked: Any, refusal: Refusal | None, gradually: Gradually
) -> object:
    topic = None
    if refusal is None:
        try:
            topic = await request.services.topics.find(asked.topic)
        except CONDITIONS as condition:
            refusal = refusal_of(condition)
    partitions = await gradually.made(
        _partition(request, index, refusal or _refusal(topic, asked.topic, index))
        for index in asked.partitions
    )
    return _result(request, asked, partitions)


def _result(request: Request, asked: Any, partitions: Iterable[object]) -> object:
    return request.types.ReplicaElectionResult(
        topic=asked.topic, partition_result=tuple(partitions)
    )


def _partition(request: Request, index: int, refusal: Refusal) -> object:
    return request.types.PartitionResult(
        partition_id=index, error_code=refusal.code, error_message=str(refusal)
    )


def _refusal(topic: KnownTopic | None, name: str, index: int) -> Refusal:
    if topic is None or topic.log(index) is None:
        message = f"There is no partition {index} of a topic {name}."
        return Refusal(ErrorCode.unknown_topic_or_partition, message)
    return Refusal(ErrorCode.election_not_needed, "The preferred leader is the leader.")
