"""DeleteTopics: v1-6. v4 flexible, v5 messages, v6 by id as well as by name (KIP-516).

A client over its quota of mutations is refused from v5 on, and waits after its request before
(KIP-599).

ACLs: DELETE on the cluster; or DESCRIBE and DELETE on each topic. Without DESCRIBE nothing tells
whether there is such a topic, or what the topic with an id is called.

A deleted topic is gone when its answer is sent; its bytes go later. Not done: the timeout.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.services import Services
from broker.topic_changes import TopicAccess, TopicChoice, choose_deleted
from protocol.acl import Operation, ResourceType
from storage.errors import MetadataUnavailable, UnknownPartition
from storage.metadata.topics import Topic

_FIRST_BY_ID: Final = 6
_FIRST_WITH_DISABLED: Final = 3
_FIRST_THROTTLED: Final = 5

Asked = tuple[str | None, UUID | None]
"""A topic's name, or its id."""


async def handle(request: Request) -> Payload:
    """Delete the topics that can be; each answers for itself."""
    choices = _choices(request, request.decode())
    chosen = await _choose(request, choices)
    each = zip(dict.fromkeys(choices), chosen, strict=True)
    results = [
        await _answer(request, asked, choice) async for asked, choice in Gradually().each(each)
    ]
    response: Payload = request.types.DeleteTopicsResponse(
        throttle_time=NOT_THROTTLED, responses=tuple(results)
    )
    return response


async def _choose(request: Request, choices: Sequence[Asked]) -> list[TopicChoice]:
    topics = request.services.topics
    try:
        await topics.refresh()  # other brokers may have made, or made again, what is to be deleted
    except MetadataUnavailable as unavailable:
        refusal = refusal_of(unavailable)
        return [
            TopicChoice(name=name, topic_id=topic_id, outcome=refusal)
            for name, topic_id in dict.fromkeys(choices)
        ]
    by_name, by_id = dict[str, Topic](), dict[UUID, Topic]()
    names = set[str]()
    async for name, topic_id in Gradually().each(choices):
        if name is not None:
            names.add(name)
            if known := topics.get(name):
                by_name[name] = known.topic
        if topic_id is not None and (known := topics.get_by_id(topic_id)):
            names.add(known.topic.name)
            by_id[topic_id] = known.topic
    access = await _access(request, names)
    return await request.aside(choose_deleted, choices, by_name, by_id, access)


async def _access(request: Request, names: Iterable[str]) -> TopicAccess:
    if request.allows(Operation.DELETE, ResourceType.CLUSTER, audit=False):
        return TopicAccess()
    hidden, kept = set[str](), set[str]()
    async for name in Gradually().each(names):
        if not request.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            hidden.add(name)
        elif not request.allows(Operation.DELETE, ResourceType.TOPIC, name):
            kept.add(name)
    return TopicAccess(hidden=frozenset(hidden), kept=frozenset(kept))


def _choices(request: Request, body: Any) -> list[Asked]:
    if request.version < _FIRST_BY_ID:
        return [(name, None) for name in body.topic_names]
    return [(topic.name, topic.topic_id) for topic in body.topics]


async def _answer(request: Request, asked: Asked, choice: TopicChoice) -> object:
    if isinstance(choice.outcome, Topic):
        choice = await _carry_out(request, asked, choice, choice.outcome)
    refusal = choice.outcome if isinstance(choice.outcome, Refusal) else None
    return request.types.DeletableTopicResult(
        name=choice.name,
        topic_id=choice.topic_id,
        error_code=refusal.code if refusal else ErrorCode.none,
        error_message=str(refusal) if refusal else None,
    )


async def _carry_out(
    request: Request, asked: Asked, choice: TopicChoice, topic: Topic
) -> TopicChoice:
    """Delete the topic, or what has its name by now; return which, or why not."""
    services = request.services
    if not services.config.delete_topic_enable:
        old = request.version < _FIRST_WITH_DISABLED
        code = ErrorCode.invalid_request if old else ErrorCode.topic_deletion_disabled
        told = "This cluster does not delete topics (delete.topic.enable=false)."
        return replace(choice, outcome=Refusal(code, told))
    try:
        request.mutate(topic.partition_count, refused_from=_FIRST_THROTTLED)
        with suppress(UnknownPartition):
            await _delete(services, topic)
            return choice
        (choice,) = await _choose(request, [asked])  # another broker may have made it again
        if isinstance(choice.outcome, Topic):
            await _delete(services, choice.outcome)
    except CONDITIONS as condition:
        return replace(choice, outcome=refusal_of(condition))
    return choice


async def _delete(services: Services, topic: Topic) -> None:
    """Delete a topic; raises UnknownPartition if another broker was faster."""
    try:
        await services.metadata.delete_topic(topic.topic_id)
    except UnknownPartition:
        services.topics.deleted(topic.topic_id)
        raise
    services.topics.deleted(topic.topic_id)
