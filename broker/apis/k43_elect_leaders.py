"""ElectLeaders: v0-2. v1 election types (KIP-460), v2 flexible.

A partition's leader is always the preferred one (D1), so no election is ever needed; of all
partitions (null), as in Kafka, that is not said one by one. Not done: the timeout.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

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
        results = [await _topic(request, asked, unknown) for asked in body.topic_partitions]
    response: Payload = types.ElectLeadersResponse(
        throttle_time=NOT_THROTTLED,
        error_code=unknown.code if unknown else ErrorCode.none,
        replica_election_results=tuple(results),
    )
    return response


async def _topic(request: Request, asked: Any, refusal: Refusal | None) -> object:
    types = request.types
    topic = None
    if refusal is None:
        try:
            topic = await request.services.topics.find(asked.topic)
        except CONDITIONS as condition:
            refusal = refusal_of(condition)
    refusals = {index: refusal or _refusal(topic, asked.topic, index) for index in asked.partitions}
    return types.ReplicaElectionResult(
        topic=asked.topic,
        partition_result=tuple(
            types.PartitionResult(
                partition_id=index,
                error_code=refusals[index].code,
                error_message=str(refusals[index]),
            )
            for index in asked.partitions
        ),
    )


def _refusal(topic: KnownTopic | None, name: str, index: int) -> Refusal:
    if topic is None or topic.log(index) is None:
        message = f"There is no partition {index} of a topic {name}."
        return Refusal(ErrorCode.unknown_topic_or_partition, message)
    return Refusal(ErrorCode.election_not_needed, "The preferred leader is the leader.")
