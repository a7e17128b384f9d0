"""What brokers were started with of what is done for all of them at once, compared at each start.

Retention, compaction and expiry are the work of one process of the cluster, now of this broker's,
now of that one's, each with what its broker was started with: one of them that was not told to keep
records expires them for all. So each leaves in Postgres what it was started with, and warns of
those that live and were started with something else.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from broker.configs.broker_configs import BrokerConfig
from broker.configs.config_reports import broker_places
from broker.configs.dynamic_broker_config import CLUSTER_WIDE
from broker.configs.entity_configs import EntityConfigs
from storage.configs.cluster_config_table import CLUSTER_ONLY
from storage.configs.config_types import format_value
from storage.configs.topic_config_table import TOPIC_CONFIGS
from storage.errors import MetadataUnavailable
from storage.metadata.brokers import Membership
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind

_OF_NO_TOPIC: Final = (
    "log.cleaner.enable",
    "offsets.retention.minutes",
    "producer.id.expiration.ms",
    "transactional.id.expiration.ms",
)

SETTLE_S: Final = 3.0
"""Of brokers that start together, the last to leave its settings has heard of the others then."""

log = structlog.get_logger()


def start_settings(started: BrokerConfig) -> dict[str, str]:
    """Return them by name: what was set, or the default.

    Args:
        started: the configs of a broker's start.
    """
    of_topics = {
        key.broker_name: format_value(started.topic_values[key.name])
        for key in TOPIC_CONFIGS.values()
        if key.broker_name in CLUSTER_ONLY
    }
    return of_topics | {name: broker_places(name, started)[0].value for name in _OF_NO_TOPIC}


async def compare_starts(
    started: BrokerConfig, configs: EntityConfigs, membership: Callable[[], Membership]
) -> None:
    """Leave how this broker was started, and warn of brokers that were started otherwise.

    What is set of the whole cluster while it runs is the same for all, and not looked at. It is no
    more than a warning: where Postgres gives no answer, there is none until the next start.
    """
    mine = start_settings(started)
    own = Entity(EntityKind.BROKER_START, str(membership().node_id))
    try:
        if configs.get(own.kind, own.name) != mine:
            await configs.alter([EntityChange(entity=own, changes=mine, replace=True)])
        await asyncio.sleep(SETTLE_S)
        await configs.refresh()
    except MetadataUnavailable as error:
        log.warning("not compared with how other brokers were started", reason=str(error))
    else:
        _warn(mine, configs, membership())


def _warn(mine: Mapping[str, str], configs: EntityConfigs, membership: Membership) -> None:
    compared = mine.keys() - configs.get(EntityKind.BROKER, CLUSTER_WIDE).keys()
    for node_id in sorted(one.node_id for one in membership.brokers):
        theirs = configs.get(EntityKind.BROKER_START, str(node_id))
        others = sorted(name for name in compared & theirs.keys() if mine[name] != theirs[name])
        if others:
            log.warning(
                "another broker was started with other settings; either may work for all topics",
                broker=node_id,
                here={name: mine[name] for name in others},
                there={name: theirs[name] for name in others},
            )
