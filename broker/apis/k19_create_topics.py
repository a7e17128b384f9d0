"""CreateTopics: v2-7. v4 counts of -1 (KIP-464), v5 configs in the answer (KIP-525), v7 topic ids.

A client over its quota of mutations is refused from v6 on, and waits after its request before
(KIP-599).

ACLs: CREATE on the cluster or on each topic; what it is like is told with DESCRIBE_CONFIGS on it.

Each topic answers for itself. Any replication factor and any assignment of brokers is accepted and
counted; where records lie does not depend on them (D1). Not done: the request's timeout (creation
is one transaction, bounded by the metadata store's own timeout).
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.configs.broker_configs import BrokerConfig
from broker.configs.config_reports import describe_topic_configs, topic_entry
from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.topic_requests import NewTopic, TopicPlan, plan_topics
from protocol.acl import Operation, ResourceType
from storage.configs.config_types import ConfigEntry
from storage.configs.topic_config_table import TOPIC_CONFIGS
from storage.errors import MetadataUnavailable

_FIRST_WITH_CONFIGS: Final = 5
_FIRST_THROTTLED: Final = 6
_AT_A_TIME: Final = 4  # of one request, so that it does not take all connections to Postgres


async def handle(request: Request) -> Payload:
    """Create the topics that can be, or only say which (validate_only)."""
    body = request.decode()
    plans = await _plans(request, body)
    creation = _Creation(request, validate_only=body.validate_only)
    results: dict[str, object] = dict.fromkeys(plans)
    left = iter(plans.items())

    async def answer_some() -> None:
        async for name, plan in Gradually().each(left):
            results[name] = await creation.answer(name, plan)

    await asyncio.gather(*(answer_some() for _ in range(_AT_A_TIME)))
    response: Payload = request.types.CreateTopicsResponse(
        throttle_time=NOT_THROTTLED, topics=tuple(results.values())
    )
    return response


async def _plans(request: Request, body: Any) -> dict[str, TopicPlan | Refusal]:
    services = request.services
    try:
        await services.topics.refresh()  # other brokers may have deleted what is to be made
    except MetadataUnavailable as unavailable:
        return dict.fromkeys((topic.name for topic in body.topics), refusal_of(unavailable))
    names = services.topics.names
    existing = {
        like async for topic in Gradually().each(body.topics) for like in names.like(topic.name)
    }
    denied = await _denied(request, body)
    return await request.aside(_planned, body, existing, services.config, denied)


def _planned(
    body: Any, existing: Collection[str], config: BrokerConfig, denied: Collection[str]
) -> dict[str, TopicPlan | Refusal]:
    return plan_topics([_asked(topic) for topic in body.topics], existing, config, denied)


async def _denied(request: Request, body: Any) -> set[str]:
    """Return the names of topics that the client may not create."""
    if request.allows(Operation.CREATE, ResourceType.CLUSTER, audit=False):
        return set()
    return {
        topic.name
        async for topic in Gradually().each(body.topics)
        if not request.allows(Operation.CREATE, ResourceType.TOPIC, topic.name)
    }


def _asked(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(one.partition_index, one.broker_ids) for one in topic.assignments],
        configs=[(config.name, config.value) for config in topic.configs],
    )


class _Creation:
    """The topics of one request."""

    def __init__(self, request: Request, *, validate_only: bool) -> None:
        self._request = request
        self._validate_only = validate_only
        self._defaults: dict[str, object] = {}

    async def answer(self, name: str, plan: TopicPlan | Refusal) -> object:
        request = self._request
        if isinstance(plan, Refusal):
            return _refused(request, name, plan)
        try:
            request.mutate(plan.partition_count, refused_from=_FIRST_THROTTLED)
            topic_id = None if self._validate_only else await self._create(plan)
            return self._created(plan, topic_id)
        except CONDITIONS as condition:
            return _refused(request, name, refusal_of(condition))

    async def _create(self, plan: TopicPlan) -> UUID:
        services = self._request.services
        known = await services.topics.change(
            services.metadata.create_topic(
                plan.name,
                partition_count=plan.partition_count,
                replication_factor=plan.replication_factor,
                configs=plan.configs,
            )
        )
        return known.topic.topic_id

    def _created(self, plan: TopicPlan, topic_id: UUID | None) -> object:
        request, told = self._request, Operation.DESCRIBE_CONFIGS
        if not request.allows(told, ResourceType.TOPIC, plan.name, audit=False):
            return _untold(request, plan, topic_id)
        has_configs = request.version >= _FIRST_WITH_CONFIGS
        return request.types.CreatableTopicResult(
            name=plan.name,
            topic_id=topic_id,
            error_code=ErrorCode.none,
            error_message=None,
            topic_config_error_code=0,
            num_partitions=plan.partition_count,
            replication_factor=plan.replication_factor,
            configs=self._configs(plan.configs) if has_configs else (),
        )

    def _configs(self, explicit: Mapping[str, str]) -> tuple[object, ...]:
        """Return all configs of a topic; those that it does not set are made once."""
        request, config = self._request, self._request.services.config
        if not self._defaults:
            entries = describe_topic_configs({}, config)
            self._defaults = {name: _config(request, entry) for name, entry in entries.items()}
        own = {
            name: _config(request, topic_entry(TOPIC_CONFIGS[name], value, config))
            for name, value in explicit.items()
            if name in TOPIC_CONFIGS
        }
        return tuple((self._defaults | own).values())


def _untold(request: Request, plan: TopicPlan, topic_id: UUID | None) -> object:
    """Return that a topic was made, to a client that may not know what it is like."""
    return request.types.CreatableTopicResult(
        name=plan.name,
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        topic_config_error_code=ErrorCode.topic_authorization_failed,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
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
