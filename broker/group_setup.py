"""Makes the parts of broker/groups.py and wires them."""

from collections.abc import Callable
from typing import NamedTuple
from uuid import uuid4

from broker.broker_configs import BrokerConfig
from broker.group_catalog import GroupCatalog
from broker.group_table import GroupTable
from broker.group_transactions import TransactionalCommits
from broker.group_upkeep import ExpiryConfig, GroupUpkeep
from broker.group_writes import GroupWrites
from broker.groups import Groups
from broker.metrics import GroupMetrics
from broker.topics import Topics
from coordinator.config import ClassicConfig, ConsumerConfig, GroupConfig
from storage.metadata import MetadataStore


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
    metrics: GroupMetrics,
) -> GroupParts:
    """Return the groups of a broker; `coordinates` tells whether a group id is this broker's."""
    writes = GroupWrites(store, metrics)
    commits = TransactionalCommits(store)
    catalog = GroupCatalog(topics)
    table = GroupTable(
        store=store,
        writes=writes,
        commits=commits,
        catalog=catalog,
        coordinates=coordinates,
        config=group_config(config),
        metrics=metrics,
    )
    upkeep = GroupUpkeep(
        store=store,
        table=table,
        writes=writes,
        catalog=catalog,
        coordinates=coordinates,
        expiry=ExpiryConfig(
            retention_ms=config.offsets_retention_minutes * 60_000,
            check_interval_ms=config.offsets_retention_check_interval_ms,
        ),
    )
    topics.watch(upkeep.topics_changed)
    groups = Groups(
        store=store, table=table, commits=commits, catalog=catalog, coordinates=coordinates
    )
    return GroupParts(groups, upkeep, table)


def group_config(config: BrokerConfig) -> GroupConfig:
    return GroupConfig(
        classic=ClassicConfig(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
        ),
        consumer=ConsumerConfig(
            session_timeout_ms=config.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            max_size=config.group_consumer_max_size,
            assignors=config.group_consumer_assignors,
        ),
        new_uuid=lambda: str(uuid4()),
    )
