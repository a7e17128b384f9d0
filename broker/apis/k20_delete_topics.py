"""DeleteTopics: v1-6. v4 flexible, v5 messages, v6 by id as well as by name (KIP-516).

A client over its quota of mutations is refused from v5 on, and waits after its request before
(KIP-599).

ACLs: DELETE on the cluster; or DESCRIBE and DELETE on each topic. Without DESCRIBE nothing tells
whether there is such a topic, or what the topic with an id is called.

A deleted topic is gone when its answer is sent; its bytes go later. Not done: the timeout.
"""

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.topic_changes import TopicAccess, TopicChoice, choose_deleted
from protocol.acl import Operation, ResourceType
from storage.errors import UnknownPartition
from storage.metadata import Topic

_FIRST_BY_ID: Final = 6
_FIRST_WITH_DISABLED: Final = 3
_FIRST_THROTTLED: Final = 5


async def handle(request: Request) -> Payload:
    """Delete the topics that can be; each answers for itself."""
    body, topics = request.decode(), request.services.topics
    choices = _choices(request, body)
    named = {name for name, _ in choices if name is not None}
    access = _access(request, named)
    for name, topic_id in choices:
        if name not in access.hidden:  # so that topics of other brokers are known, too
            await topics.find(name or "", topic_id)
    known = [each.topic for each in topics.all()]
    by_id = {topic.topic_id: topic for topic in known}
    meant = {by_id[topic_id].name for _, topic_id in choices if topic_id in by_id}
    access |= _access(request, meant - named)
    chosen = choose_deleted(choices, {topic.name: topic for topic in known}, by_id, access)
    results = [await _answer(request, choice) for choice in chosen]
    response: Payload = request.types.DeleteTopicsResponse(
        throttle_time=NOT_THROTTLED, responses=tuple(results)
    )
    return response


def _access(request: Request, names: Iterable[str]) -> TopicAccess:
    if request.allows(Operation.DELETE, ResourceType.CLUSTER, audit=False):
        return TopicAccess()
    hidden, kept = set[str](), set[str]()
    for name in names:
        if not request.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            hidden.add(name)
        elif not request.allows(Operation.DELETE, ResourceType.TOPIC, name):
            kept.add(name)
    return TopicAccess(hidden=frozenset(hidden), kept=frozenset(kept))


def _choices(request: Request, body: Any) -> list[tuple[str | None, UUID | None]]:
    if request.version < _FIRST_BY_ID:
        return [(name, None) for name in body.topic_names]
    return [(topic.name, topic.topic_id) for topic in body.topics]


async def _answer(request: Request, choice: TopicChoice) -> object:
    outcome = choice.outcome
    if isinstance(outcome, Topic):
        outcome = await _delete(request, outcome)
    refused = isinstance(outcome, Refusal)
    return request.types.DeletableTopicResult(
        name=choice.name,
        topic_id=choice.topic_id,
        error_code=outcome.code if isinstance(outcome, Refusal) else ErrorCode.none,
        error_message=str(outcome) if refused else None,
    )


async def _delete(request: Request, topic: Topic) -> Topic | Refusal:
    services = request.services
    if not services.config.delete_topic_enable:
        old = request.version < _FIRST_WITH_DISABLED
        code = ErrorCode.invalid_request if old else ErrorCode.topic_deletion_disabled
        return Refusal(code, "This cluster does not delete topics (delete.topic.enable=false).")
    try:
        request.mutate(topic.partition_count, refused_from=_FIRST_THROTTLED)
        await services.metadata.delete_topic(topic.topic_id)
    except UnknownPartition:  # another broker was faster
        services.topics.deleted(topic.topic_id)
        return Refusal(
            ErrorCode.unknown_topic_or_partition, f"Topic '{topic.name}' does not exist."
        )
    except CONDITIONS as condition:
        return refusal_of(condition)
    services.topics.deleted(topic.topic_id)
    return topic
