"""CreateTopics: v2-7. v4 counts of -1 (KIP-464), v5 configs in the answer (KIP-525), v7 topic ids.

A client over its quota of mutations is refused from v6 on, and waits after its request before
(KIP-599).

Each topic answers for itself. Any replication factor and any assignment of brokers is accepted and
counted; where records lie does not depend on them (D1). Not done: the request's timeout (creation
is one transaction, bounded by the metadata store's own timeout).
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.config_reports import describe_topic_configs
from broker.config_types import ConfigEntry
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.topic_requests import NewTopic, TopicPlan, plan_topics

_FIRST_WITH_CONFIGS: Final = 5
_FIRST_THROTTLED: Final = 6
_AT_A_TIME: Final = 4  # of one request, so that it does not take all connections to Postgres


async def handle(request: Request) -> Payload:
    """Create the topics that can be, or only say which (validate_only)."""
    body, services = request.decode(), request.services
    existing = {known.topic.name for known in services.topics.all()}
    plans = plan_topics([_asked(topic) for topic in body.topics], existing, services.config)
    turns = asyncio.Semaphore(_AT_A_TIME)
    results = await asyncio.gather(
        *(
            _answer(request, name, plan, turns=turns, validate_only=body.validate_only)
            for name, plan in plans.items()
        )
    )
    response: Payload = request.types.CreateTopicsResponse(
        throttle_time=NOT_THROTTLED, topics=tuple(results)
    )
    return response


def _asked(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(one.partition_index, one.broker_ids) for one in topic.assignments],
        configs=[(config.name, config.value) for config in topic.configs],
    )


async def _answer(
    request: Request,
    name: str,
    plan: TopicPlan | Refusal,
    *,
    turns: asyncio.Semaphore,
    validate_only: bool,
) -> object:
    if isinstance(plan, Refusal):
        return _refused(request, name, plan)
    try:
        if request.quota is not None:
            strict = request.version >= _FIRST_THROTTLED
            request.quota.mutate(plan.partition_count, strict=strict)
        if validate_only:
            return _created(request, plan, None)
        async with turns:
            return _created(request, plan, await _create(request, plan))
    except CONDITIONS as condition:
        return _refused(request, name, refusal_of(condition))


async def _create(request: Request, plan: TopicPlan) -> UUID:
    topics = request.services.topics
    before = topics.version
    topic = await request.services.metadata.create_topic(
        plan.name,
        partition_count=plan.partition_count,
        replication_factor=plan.replication_factor,
        configs=plan.configs,
    )
    topics.changed(topic, before)
    return topic.topic_id


def _created(request: Request, plan: TopicPlan, topic_id: UUID | None) -> object:
    entries: Iterable[ConfigEntry] = ()
    if request.version >= _FIRST_WITH_CONFIGS:
        entries = describe_topic_configs(plan.configs, request.services.config).values()
    return request.types.CreatableTopicResult(
        name=plan.name,
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        topic_config_error_code=0,
        num_partitions=plan.partition_count,
        replication_factor=plan.replication_factor,
        configs=tuple(_config(request, entry) for entry in entries),
    )


def _config(request: Request, entry: ConfigEntry) -> object:
    return request.types.CreatableTopicConfigs(
        name=entry.key.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=False,
    )


def _refused(request: Request, name: str, refusal: Refusal) -> object:
    return request.types.CreatableTopicResult(
        name=name,
        topic_id=None,
        error_code=refusal.code,
        error_message=str(refusal),
        topic_config_error_code=0,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )
