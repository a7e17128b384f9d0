"""The broker's configs in force: those of its start, and what was set since (KIP-226).

What is stored may be of another version of the broker, or not go together with how this one was
started: such configs are named in the log and do not count, and the broker goes on without them.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import structlog

from broker.broker_configs import BrokerConfig, read_broker_config
from broker.broker_settings import check_dynamic_configs
from broker.config_types import InvalidConfig
from broker.entity_configs import EntityConfigs
from storage.entity_configs import EntityKind

CLUSTER_WIDE: Final = ""
"""The name of the entity whose configs are those of all brokers."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

log = structlog.get_logger()


class DynamicBrokerConfig:
    """Follows what is set of the whole cluster, and of this broker once it knows its node id.

    Attributes:
        current: all configs, as they are now.
    """

    def __init__(self, static: BrokerConfig, entity_configs: EntityConfigs) -> None:
        self.current = static
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
            InvalidConfig: it names every mistake.
        """
        stored = {CLUSTER_WIDE: self.current.cluster_wide, str(self._node_id): self.current.own}
        stored[name] = configs
        return read_broker_config(
            self._static.explicit,
            cluster_wide=stored[CLUSTER_WIDE],
            own=stored[str(self._node_id)],
        )

    def _changed(self, names: Iterable[str]) -> None:
        if {CLUSTER_WIDE, str(self._node_id)} & set(names):
            self._take()

    def _take(self) -> None:
        self.current = self._read()
        for watcher in self._watchers:
            watcher()

    def _read(self) -> BrokerConfig:
        cluster_wide = self._allowed(CLUSTER_WIDE)
        own = _NOTHING if self._node_id is None else self._allowed(str(self._node_id))
        for layers in ((cluster_wide, own), (cluster_wide, _NOTHING)):
            try:
                return read_broker_config(
                    self._static.explicit, cluster_wide=layers[0], own=layers[1]
                )
            except InvalidConfig as invalid:
                log.warning("dynamic configs do not count", reason=str(invalid))
        return self._static

    def _allowed(self, name: str) -> Mapping[str, str]:
        configs, problems = check_dynamic_configs(self._entity_configs.get(EntityKind.BROKER, name))
        if problems:
            log.warning("dynamic configs do not count", broker=name, reason="; ".join(problems))
        return configs
