"""CreatePartitions: v0-3. v2 flexible, v3 may be throttled (KIP-599).

Each topic answers for itself. Assignments are accepted and counted, each as many as Metadata shows
or the topic was made with; where records lie does not depend on them (D1).

ACLs: ALTER on each topic. Not done: the request's timeout.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.services import Services
from broker.topic_changes import MorePartitions, plan_partitions
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition
from storage.errors import MetadataUnavailable, UnknownPartition
from storage.metadata.topics import Topic

_FIRST_THROTTLED: Final = 3


async def handle(request: Request) -> Payload:
    """Add partitions where that can be done, or only say where (validate_only)."""
    body, services = request.decode(), request.services
    requests = await request.aside(_requests, body)
    denied = {
        topic.name
        async for topic in Gradually().each(body.topics)
        if not request.allows(Operation.ALTER, ResourceType.TOPIC, topic.name)
    }
    try:
        await services.topics.refresh()  # other brokers may have made, or made again, some of them
        shown = await _shown(request, requests)
        plans = await request.aside(_plans, services, requests, shown, denied)
    except MetadataUnavailable as unavailable:
        plans = dict.fromkeys((each.name for each in requests), refusal_of(unavailable))
    asked = {each.name: each for each in requests}
    results = []
    async for name, plan in Gradually().each(plans.items()):
        outcome: Topic | Refusal = plan
        if isinstance(plan, Topic):
            outcome = await _add(request, plan, asked[name], validate_only=body.validate_only)
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


def _requests(body: Any) -> list[MorePartitions]:
    return [
        MorePartitions(
            name=topic.name,
            partition_count=topic.count,
            assignments=None
            if topic.assignments is None
            else [assignment.broker_ids for assignment in topic.assignments],
        )
        for topic in body.topics
    ]


async def _shown(request: Request, requests: Sequence[MorePartitions]) -> dict[str, int]:
    """Return how many replicas Metadata shows of each topic with assignments, of partition 0."""
    topics, cluster = request.services.topics, request.services.cluster
    rack = cluster.rack_of(request.header.client_id)
    shown: dict[str, int] = {}
    async for each in Gradually().each(requests):
        known = None if each.assignments is None else topics.get(each.name)
        if known is not None:
            first, factor = Partition(known.topic.topic_id, 0), known.topic.replication_factor
            shown[each.name] = len(cluster.brokers.replicas(first, factor, rack))
    return shown


def _plans(
    services: Services,
    requests: Sequence[MorePartitions],
    shown: Mapping[str, int],
    denied: Collection[str] = (),
) -> dict[str, Topic | Refusal]:
    found = [services.topics.get(each.name) for each in requests if each.name not in denied]
    existing = {each.topic.name: each.topic for each in found if each}
    return plan_partitions(requests, existing, shown, denied)


async def _add(
    request: Request, topic: Topic, asked: MorePartitions, *, validate_only: bool
) -> Topic | Refusal:
    """Add partitions to the topic, or to what has its name by now; return it, or why not."""
    services = request.services
    added = asked.partition_count - topic.partition_count
    try:
        request.mutate(added, refused_from=_FIRST_THROTTLED)
        if validate_only:
            return topic
        with suppress(UnknownPartition):
            return await _grow(services, topic, asked.partition_count)
        await services.topics.refresh()  # another broker may have made it again
        plan = _plans(services, [asked], await _shown(request, [asked]))[asked.name]
        if isinstance(plan, Refusal):
            return plan
        return await _grow(services, plan, asked.partition_count)
    except CONDITIONS as condition:
        return refusal_of(condition)


async def _grow(services: Services, topic: Topic, partition_count: int) -> Topic:
    adding = services.metadata.add_partitions(topic.topic_id, partition_count)
    return (await services.topics.change(adding, of=topic)).topic
