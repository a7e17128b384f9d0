"""The quotas that are set, ready to be looked up: read once, and only those that change."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from broker.configs.entity_configs import EntityConfigs
from broker.quotas.quota_entities import IP, Parts, QuotaEntity, ip_address, quota_values
from broker.quotas.quota_levels import Levels
from storage.metadata.entity_configs import EntityKind

_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})


class QuotaTable:
    """Follows the configs of quotas; a change costs as much as it changes.

    Attributes:
        entities: what is set of each, in the order in which they came.
        levels: the same by quota, addresses in the form they are compared in.
    """

    def __init__(self, configs: EntityConfigs) -> None:
        self._entities: dict[QuotaEntity, Mapping[str, float]] = {}
        self._levels: dict[str, dict[Parts, float]] = {}
        self._same: dict[Parts, dict[QuotaEntity, None]] = {}  # ways to write one address
        self.entities: Mapping[QuotaEntity, Mapping[str, float]] = self._entities
        self.levels: Levels = self._levels
        self._configs = configs
        self._watchers: list[Callable[[], None]] = []
        configs.watch(EntityKind.CLIENT_QUOTA, self._take)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after every change."""
        self._watchers.append(watcher)

    def put(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> None:
        """Set what an entity has, which may be nothing."""
        parts = tuple((kind, _compared(kind, name)) for kind, name in entity.parts)
        same = self._same.setdefault(parts, {})
        before = self._entities.get(entity, _NOTHING)
        if quotas:
            self._entities[entity] = quotas
            same[entity] = None
        else:
            self._entities.pop(entity, None)
            same.pop(entity, None)
        if not same:
            del self._same[parts]
        for quota in before.keys() | quotas.keys():
            self._put_level(quota, parts, same)

    def _put_level(self, quota: str, parts: Parts, same: Iterable[QuotaEntity]) -> None:
        level = self._levels.setdefault(quota, {})
        level.pop(parts, None)
        for entity in same:  # of several, the last one counts
            if quota in self._entities[entity]:
                level[parts] = self._entities[entity][quota]
        if not level:
            del self._levels[quota]

    def _take(self, names: Iterable[str]) -> None:
        for name in names:
            stored = self._configs.get(EntityKind.CLIENT_QUOTA, name)
            self.put(QuotaEntity.from_text(name), quota_values(stored))
        for watcher in self._watchers:
            watcher()


def _compared(kind: str, name: str | None) -> str | None:
    return ip_address(name) if kind == IP and name is not None else name
