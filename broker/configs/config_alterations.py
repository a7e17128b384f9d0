"""What AlterConfigs and IncrementalAlterConfigs do with the configs of a resource."""

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from broker.configs.broker_settings import check_dynamic_configs
from broker.configs.config_changes import ConfigRules
from broker.configs.config_resources import ConfigResource, find_entity, known_topic
from broker.configs.config_rules import (
    BrokerRules,
    ClientMetricsRules,
    GroupRules,
    TopicRules,
    told_names,
)
from broker.configs.fresh_copies import FreshCopies
from broker.requests import Request
from storage.errors import ConfigsChanged
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind

Changes = Mapping[str, str | None]
"""What to set, or unset (None), of a resource."""

ChangesOf = Callable[[Any, Mapping[str, str], ConfigRules], Changes]
"""Returns what a resource of a request changes of what is stored, or raises a Refusal."""

log = structlog.get_logger()


class Alterations:
    """Those of one request.

    Args:
        request: AlterConfigs or IncrementalAlterConfigs.
        changes_of: tells what a resource of it changes.
        replace: whether all that the changes do not name is unset.
        validate_only: nothing is stored.
    """

    def __init__(
        self, request: Request, changes_of: ChangesOf, *, replace: bool, validate_only: bool
    ) -> None:
        self._request = request
        self._changes_of = changes_of
        self._replace = replace
        self._validate_only = validate_only
        self._copies = FreshCopies()

    async def alter(self, resource: Any) -> None:
        """Alter the configs of one resource.

        Raises:
            Refusal: there is no such resource, or it cannot have such configs.
            ConfigsChanged: others changed them all the time; nothing was done.
            MetadataUnavailable: no answer; all of it was done, or nothing.
        """

        async def alter() -> None:
            try:
                if resource.resource_type == ConfigResource.TOPIC:
                    await self._alter_topic(resource)
                else:
                    await self._alter_entity(resource)
            except ConfigsChanged:
                self._copies.forget()
                raise

        await self._request.services.config_writes.run(alter)

    async def _alter_topic(self, resource: Any) -> None:
        """Do it if what is set stays meanwhile what it is; else raise ConfigsChanged."""
        request, services = self._request, self._request.services
        await self._copies.refresh(services.topics)  # what is appended to may be another broker's
        topic = known_topic(request, resource.resource_name).topic
        rules = TopicRules(services.config.topic_values)
        changes = await request.aside(self._changes_of, resource, topic.configs, rules)
        if self._stores(topic.configs, changes):
            await services.topics.change(
                services.metadata.alter_topic_configs(
                    topic.topic_id, changes, replace=self._replace, expected=topic.configs
                ),
                of=topic,
            )

    async def _alter_entity(self, resource: Any) -> None:
        """Do it, or raise ConfigsChanged, as above."""
        request, configs = self._request, self._request.services.entity_configs
        entity = find_entity(request, resource.resource_type, resource.resource_name)
        await self._copies.refresh(configs)  # as above
        stored = configs.get(entity.kind, entity.name)
        changes = await request.aside(
            *(self._changes_of, resource, _counting(entity, stored), _entity_rules(request, entity))
        )
        if self._stores(stored, changes):
            change = EntityChange(
                entity=entity, changes=changes, replace=self._replace, expected=stored
            )
            await configs.alter([change])
            log.info(
                "configs altered", kind=entity.kind, name=entity.name, configs=told_names(changes)
            )

    def _stores(self, stored: Mapping[str, str], changes: Changes) -> bool:
        """Tell whether anything is to be written; as in Kafka, what is so already is not.

        MirrorMaker unsets every default of every topic again and again, and each write would make
        all brokers forget the Metadata answers that they keep.
        """
        wanted = dict(changes) if self._replace else {**stored, **changes}
        is_so = {name: value for name, value in wanted.items() if value is not None} == stored
        return not self._validate_only and not is_so


def _counting(entity: Entity, stored: Mapping[str, str]) -> Mapping[str, str]:
    """Return what is set of an entity; of brokers only what counts."""
    return check_dynamic_configs(stored)[0] if entity.kind is EntityKind.BROKER else stored


def _entity_rules(request: Request, entity: Entity) -> ConfigRules:
    if entity.kind is EntityKind.BROKER:
        return BrokerRules(request.services.dynamic_config, entity.name)
    if entity.kind is EntityKind.GROUP:
        return GroupRules(request.services.config)
    return ClientMetricsRules()
