"""DescribeConfigs: v1-4. v1 sources, synonyms (KIP-226), v3 types, docs (KIP-569), v4 flexible.

Topics, and the broker that is asked (an empty broker name is the cluster's dynamic defaults, of
which there are none). A resource that the request names twice is answered once, with the names
asked for first: an answer must not be larger than the topics that there are.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.config_reports import describe_broker_configs, describe_topic_configs, topic_entry
from broker.config_resources import (
    ResourceType,
    check_broker_name,
    find_topic,
    unknown_resource_type,
)
from broker.config_types import ConfigEntry
from broker.refusals import CONDITIONS, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.topic_config_table import TOPIC_CONFIGS

Described = dict[str, object]
"""A response's entity for each config, by name."""


async def handle(request: Request) -> Payload:
    """Describe each resource; one that cannot be answers for itself."""
    body = request.decode()
    types, describe = request.types, _Describe(request, body)
    resources: dict[tuple[int, str], Any] = {}
    for each in body.resources:
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
    """Makes the response's entities; those of topics without configs of their own only once."""

    def __init__(self, request: Request, body: Any) -> None:
        self._request = request
        self._config = request.services.config
        self._synonyms: bool = body.include_synonyms
        self._documentation: bool = getattr(body, "include_documentation", False)
        self._defaults: Described = {}

    async def resource(self, resource_type: int, name: str) -> Described:
        if resource_type == ResourceType.TOPIC:
            known = await find_topic(self._request, name)
            return self._topic(known.topic.configs)
        if resource_type == ResourceType.BROKER:
            check_broker_name(self._request, name)
            return self._broker() if name else {}
        raise unknown_resource_type(resource_type)

    def _topic(self, explicit: Mapping[str, str]) -> Described:
        if not self._defaults:
            entries = describe_topic_configs({}, self._config)
            self._defaults = {name: self._entity(entry) for name, entry in entries.items()}
        own = {
            name: self._entity(topic_entry(TOPIC_CONFIGS[name], value, self._config))
            for name, value in explicit.items()
            if name in TOPIC_CONFIGS
        }
        return self._defaults | own

    def _broker(self) -> Described:
        node_id = str(self._request.services.cluster.node_id)
        facts = {"node.id": node_id, "broker.id": node_id}
        entries = describe_broker_configs(self._config, facts)
        return {name: self._entity(entry) for name, entry in entries.items()}

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
