"""DescribeConfigs: v1-4. v1 sources, synonyms (KIP-226), v3 types, docs (KIP-569), v4 flexible.

Topics; the broker that is asked (an empty broker name is what is set of the whole cluster); groups
and client-metrics subscriptions, whether there are such or not (MAX_WITHOUT_CONFIGS); the log
levels of the broker that is asked. A resource that the request names twice is answered once, with
the names asked for first: an answer must not be larger than the topics that there are.

ACLs: DESCRIBE_CONFIGS on the topic, the group or else the cluster.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.configs.config_reports import (
    describe_broker_configs,
    describe_client_metrics_configs,
    describe_cluster_wide_configs,
    describe_group_configs,
    describe_topic_configs,
    topic_entry,
)
from broker.configs.config_resources import (
    ConfigResource,
    authorize,
    check_node_id,
    find_entity,
    known_topic,
)
from broker.configs.dynamic_broker_config import CLUSTER_WIDE
from broker.configs.fresh_copies import FreshCopies
from broker.configs.log_levels import LOG_LEVELS, LOGGERS
from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from protocol.acl import Operation
from storage.configs.config_types import ConfigEntry, ConfigSource
from storage.configs.topic_config_table import TOPIC_CONFIGS
from storage.metadata.entity_configs import Entity, EntityKind

_UNTYPED: Final = 0

MAX_WITHOUT_CONFIGS: Final = 10_000
"""Groups and subscriptions of one request that set nothing; there may be none of such a name, and
what is told of each is fifty times as long as a name."""

Described = dict[str, object]
"""A response's entity for each config, by name."""


async def handle(request: Request) -> Payload:
    """Describe each resource; one that cannot be answers for itself."""
    body = request.decode()
    types, describe = request.types, _Describe(request, body)
    resources: dict[tuple[int, str], Any] = {}
    async for each in Gradually().each(body.resources):
        resources.setdefault((each.resource_type, each.resource_name), each)
    results = []
    for (resource_type, name), resource in resources.items():
        refusal, described = None, Described()
        try:
            described = await describe.resource(resource_type, name)
        except CONDITIONS as condition:
            refusal = refusal_of(condition)
        results.append(
            types.DescribeConfigsResult(
                error_code=refusal.code if refusal else ErrorCode.none,
                error_message=str(refusal) if refusal else None,
                resource_type=resource_type,
                resource_name=name,
                configs=_chosen(described, resource.configuration_keys),
            )
        )
        await asyncio.sleep(0)  # tools ask for all topics at once; other requests get their turn
    response: Payload = types.DescribeConfigsResponse(
        throttle_time=NOT_THROTTLED, results=tuple(results)
    )
    return response


def _chosen(described: Described, names: tuple[str, ...] | None) -> tuple[object, ...]:
    """Return the configs asked for; no names means all, and unknown ones are left out."""
    if not names:
        return tuple(described.values())
    return tuple(described[name] for name in dict.fromkeys(names) if name in described)


class _Describe:
    """Makes the response's entities; those of what has no configs of its own only once."""

    def __init__(self, request: Request, body: Any) -> None:
        self._request = request
        self._synonyms: bool = body.include_synonyms
        self._documentation: bool = getattr(body, "include_documentation", False)
        self._defaults: Described = {}
        self._unset: dict[EntityKind, Described] = {}
        self._without_configs = 0
        self._copies = FreshCopies()

    async def resource(self, resource_type: int, name: str) -> Described:
        authorize(self._request, resource_type, name, Operation.DESCRIBE_CONFIGS)
        if resource_type == ConfigResource.TOPIC:
            await self._copies.refresh(self._request.services.topics)
            return self._topic(known_topic(self._request, name).topic.configs)
        if resource_type == ConfigResource.BROKER_LOGGER:
            check_node_id(self._request, name)
            return {logger: self._level(logger) for logger in LOGGERS}
        entity = find_entity(self._request, resource_type, name)
        await self._copies.refresh(self._request.services.entity_configs)
        return self._named(entity)

    def _named(self, entity: Entity) -> Described:
        own = self._request.services.entity_configs.get(entity.kind, entity.name)
        if own or entity.kind is EntityKind.BROKER:
            return self._all(self._entries(entity, own))
        self._without_configs += 1
        if self._without_configs > MAX_WITHOUT_CONFIGS:
            raise Refusal(ErrorCode.invalid_request, "Too many resources without configs.")
        if entity.kind not in self._unset:
            self._unset[entity.kind] = self._all(self._entries(entity, own))
        return self._unset[entity.kind]

    def _entries(self, entity: Entity, own: Mapping[str, str]) -> Mapping[str, ConfigEntry]:
        services = self._request.services
        if entity.kind is EntityKind.CLIENT_METRICS:
            return describe_client_metrics_configs(own)
        if entity.kind is EntityKind.GROUP:
            return describe_group_configs(own, services.config)
        if entity.name == CLUSTER_WIDE:
            return describe_cluster_wide_configs(services.config)
        return describe_broker_configs(services.config, services.node_facts)

    def _topic(self, explicit: Mapping[str, str]) -> Described:
        config = self._request.services.config
        if not self._defaults:
            self._defaults = self._all(describe_topic_configs({}, config))
        own = {
            name: self._entity(topic_entry(TOPIC_CONFIGS[name], value, config))
            for name, value in explicit.items()
            if name in TOPIC_CONFIGS
        }
        return self._defaults | own

    def _all(self, entries: Mapping[str, ConfigEntry]) -> Described:
        return {name: self._entity(entry) for name, entry in entries.items()}

    def _level(self, logger: str) -> object:
        return self._request.types.DescribeConfigsResourceResult(
            name=logger,
            value=LOG_LEVELS.level(logger),
            read_only=False,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            is_sensitive=False,
            synonyms=(),
            config_type=_UNTYPED,
            documentation=None,
        )

    def _entity(self, entry: ConfigEntry) -> object:
        types = self._request.types
        synonyms = entry.synonyms if self._synonyms else ()
        return types.DescribeConfigsResourceResult(
            name=entry.key.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=False,
            synonyms=tuple(
                types.DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
                for each in synonyms
            ),
            config_type=entry.key.type,
            documentation=entry.key.doc if self._documentation else None,
        )
