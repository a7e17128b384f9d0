"""CreatePartitions: v0-3. v2 flexible, v3 may be throttled (KIP-599).

Each topic answers for itself. Assignments are accepted and counted; where records lie does not
depend on them (D1). ACLs: ALTER on each topic. Not done: the request's timeout.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.topic_changes import MorePartitions, plan_partitions
from protocol.acl import Operation, ResourceType
from storage.metadata import Topic

_FIRST_THROTTLED: Final = 3


async def handle(request: Request) -> Payload:
    """Add partitions where that can be done, or only say where (validate_only)."""
    body, services = request.decode(), request.services
    requests = [
        MorePartitions(
            name=topic.name,
            partition_count=topic.count,
            assignments=None
            if topic.assignments is None
            else [assignment.broker_ids for assignment in topic.assignments],
        )
        for topic in body.topics
    ]
    denied = {
        topic.name
        for topic in body.topics
        if not request.allows(Operation.ALTER, ResourceType.TOPIC, topic.name)
    }
    found = [await services.topics.find(each.name) for each in requests if each.name not in denied]
    existing = {each.topic.name: each.topic for each in found if each}
    plans = plan_partitions(requests, existing, denied)
    wanted = {each.name: each.partition_count for each in requests}
    results = []
    for name, plan in plans.items():
        outcome: Topic | Refusal = plan
        if isinstance(plan, Topic):
            outcome = await _add(request, plan, wanted[name], validate_only=body.validate_only)
        refused = isinstance(outcome, Refusal)
        results.append(
            request.types.CreatePartitionsTopicResult(
                name=name,
                error_code=outcome.code if isinstance(outcome, Refusal) else ErrorCode.none,
                error_message=str(outcome) if refused else None,
            )
        )
    response: Payload = request.types.CreatePartitionsResponse(
        throttle_time=NOT_THROTTLED, results=tuple(results)
    )
    return response


async def _add(
    request: Request, topic: Topic, partition_count: int, *, validate_only: bool
) -> Topic | Refusal:
    services = request.services
    try:
        request.mutate(partition_count - topic.partition_count, refused_from=_FIRST_THROTTLED)
        if validate_only:
            return topic
        adding = services.metadata.add_partitions(topic.topic_id, partition_count)
        return (await services.topics.change(adding)).topic
    except CONDITIONS as condition:
        return refusal_of(condition)
