"""Makes the parts of broker/groups/groups.py and wires them."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple
from uuid import uuid4

import structlog

from broker.configs.broker_configs import BrokerConfig
from broker.configs.entity_configs import EntityConfigs
from broker.groups.group_catalog import GroupCatalog
from broker.groups.group_commits import GroupCommits
from broker.groups.group_configs import read_group_configs
from broker.groups.group_metrics import GroupMetrics
from broker.groups.group_requests import host_of
from broker.groups.group_retake import GroupRetake
from broker.groups.group_table import GroupTable
from broker.groups.group_transactions import TransactionalCommits
from broker.groups.group_upkeep import ExpiryConfig, GroupUpkeep
from broker.groups.group_writes import GroupWrites
from broker.groups.groups import Groups
from broker.security.authorizer import Authorizer
from broker.security.topic_access import VisibleTopics
from broker.topics import Topics
from coordinator.config import ClassicConfig, ConsumerConfig, GroupConfig
from storage.configs.config_types import InvalidConfig
from storage.metadata.entity_configs import EntityKind
from storage.metadata.port import MetadataStore

log = structlog.get_logger()


class GroupParts(NamedTuple):
    """What handlers use, what runs beside it, and what metrics look at."""

    groups: Groups
    upkeep: GroupUpkeep
    table: GroupTable


def make_groups(
    *,
    store: MetadataStore,
    topics: Topics,
    coordinates: Callable[[str], bool],
    config: BrokerConfig,
    entity_configs: EntityConfigs,
    authorizer: Authorizer,
    metrics: GroupMetrics,
) -> GroupParts:
    """Return the groups of a broker; `coordinates` tells whether a group id is this broker's."""
    writes = GroupWrites(store, metrics)
    commits = TransactionalCommits(store)
    catalog = GroupCatalog(topics)
    takeover_due = asyncio.Event()
    table = GroupTable(
        store=store,
        writes=writes,
        catalog=catalog,
        coordinates=coordinates,
        config_of=partial(_config_of, group_config(config, authorizer), config, entity_configs),
        retake=GroupRetake(takeover_due),
        metrics=metrics,
    )
    upkeep = GroupUpkeep(
        store=store,
        table=table,
        writes=writes,
        commits=commits,
        catalog=catalog,
        coordinates=coordinates,
        takeover_due=takeover_due,
        expiry=ExpiryConfig(
            retention_ms=config.offsets_retention_minutes * 60_000,
            check_interval_ms=config.offsets_retention_check_interval_ms,
        ),
    )
    topics.watch(upkeep.topics_changed)
    entity_configs.watch(EntityKind.GROUP, table.reconfigure)
    groups = Groups(
        store=store,
        table=table,
        commits=GroupCommits(writes, commits, metrics),
        catalog=catalog,
        coordinates=coordinates,
    )
    return GroupParts(groups, upkeep, table)


def _config_of(
    defaults: GroupConfig, broker: BrokerConfig, entity_configs: EntityConfigs, group_id: str
) -> GroupConfig:
    """Return the limits and times of a group; what it cannot have here does not count."""
    own = entity_configs.get(EntityKind.GROUP, group_id)
    if not own:
        return defaults
    try:
        times = read_group_configs(own, broker)
    except InvalidConfig as invalid:
        log.warning("group configs do not count", group_id=group_id, reason=str(invalid))
        return defaults
    return replace(
        defaults,
        consumer=replace(
            defaults.consumer,
            session_timeout_ms=times.session_timeout_ms,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
        ),
    )


@dataclass(frozen=True, slots=True)
class TopicVisibility:
    """Which topics clients may describe, as consumer groups ask (coordinator.shown_topics)."""

    authorizer: Authorizer

    @property
    def edition(self) -> Hashable:
        return self.authorizer.edition

    def __call__(self, principal: str, client_host: str) -> VisibleTopics:
        return VisibleTopics(self.authorizer, principal, host_of(client_host))


def group_config(config: BrokerConfig, authorizer: Authorizer) -> GroupConfig:
    return GroupConfig(
        classic=ClassicConfig(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
        ),
        consumer=ConsumerConfig(
            session_timeout_ms=config.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            max_size=config.group_consumer_max_size,
            assignors=config.group_consumer_assignors,
        ),
        new_uuid=lambda: str(uuid4()),
        visible_to=TopicVisibility(authorizer) if authorizer.enabled else None,
    )
