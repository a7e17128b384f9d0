"""The broker's configs in force: those of its start, and what was set since (KIP-226).

What is stored may be of another version of the broker: what this one cannot read is named in the
log and does not count, and nothing is deleted that it may have been meant to keep. What does not go
together with something else, such as how this broker was started, counts, as in Apache Kafka.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import structlog

from broker.configs.broker_configs import BrokerConfig, merge_broker_configs
from broker.configs.broker_settings import check_dynamic_configs, cluster_only_problem
from broker.configs.entity_configs import EntityConfigs
from storage.configs.cluster_config_table import CLUSTER_ONLY
from storage.configs.config_types import InvalidConfig
from storage.metadata.entity_configs import EntityKind

CLUSTER_WIDE: Final = ""
"""The name of the entity whose configs are those of all brokers."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

log = structlog.get_logger()


class DynamicBrokerConfig:
    """Follows what is set of the whole cluster, and of this broker once it knows its node id.

    Attributes:
        current: all configs, as they are now.
        is_whole: whether all that is set of the whole cluster could be read; where not, what stands
            in for the rest may keep less, or for a shorter time.
    """

    def __init__(self, static: BrokerConfig, entity_configs: EntityConfigs) -> None:
        self.current = static
        self.is_whole = True
        self._static = static
        self._entity_configs = entity_configs
        self._node_id: int | None = None
        self._watchers: list[Callable[[], None]] = []
        entity_configs.watch(EntityKind.BROKER, self._changed)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after every change of `current`."""
        self._watchers.append(watcher)

    def identify(self, node_id: int) -> None:
        """Follow what is set of this broker, too."""
        self._node_id = node_id
        self._take()

    def proposed(self, name: str, configs: Mapping[str, str]) -> BrokerConfig:
        """Return what would be in force here if an entity had `configs`.

        Args:
            name: CLUSTER_WIDE, or this broker's node id.
            configs: all of that entity.

        Raises:
            InvalidConfig: it names every mistake, but for those of what is set already.
        """
        current = self.current  # of one moment: threads ask, too
        stored = {CLUSTER_WIDE: current.cluster_wide, str(self._node_id): current.own}
        stored[name] = configs
        config = merge_broker_configs(
            self._static.explicit, stored[CLUSTER_WIDE], stored[str(self._node_id)]
        )
        new = set(config.conflicts) - set(current.conflicts)
        altered = config.own.items() - current.own.items()
        new |= {cluster_only_problem(name) for name, _ in altered if name in CLUSTER_ONLY}
        if new:
            raise InvalidConfig(sorted(new))
        return config

    def _changed(self, names: Iterable[str]) -> None:
        if {CLUSTER_WIDE, str(self._node_id)} & set(names):
            self._take()

    def _take(self) -> None:
        stored = self._entity_configs.get
        cluster_wide, unread = check_dynamic_configs(stored(EntityKind.BROKER, CLUSTER_WIDE))
        own, own_unread = _NOTHING, list[str]()
        if self._node_id is not None:
            own, own_unread = check_dynamic_configs(stored(EntityKind.BROKER, str(self._node_id)))
            own_unread += map(cluster_only_problem, sorted(CLUSTER_ONLY & own.keys()))
        self.is_whole = not unread
        self.current = merge_broker_configs(self._static.explicit, cluster_wide, own)
        for name, problems in ((CLUSTER_WIDE, unread), (str(self._node_id), own_unread)):
            if problems:
                log.warning("dynamic configs do not count", broker=name, reason="; ".join(problems))
        if self.current.conflicts:
            log.warning("configs contradict each other", reason="; ".join(self.current.conflicts))
        for watcher in self._watchers:
            watcher()
