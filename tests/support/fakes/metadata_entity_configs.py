"""The metadata port's configs of everything but topics, in memory."""

from collections.abc import Sequence

from storage.errors import ConfigsChanged
from storage.metadata.entity_configs import Entity, EntityChange, EntityChanges, EntityConfigValues


class MemoryEntityConfigs:
    """Configs of entities; see EntityConfigStore for what each method promises."""

    _version: int
    server: int

    def __init__(self) -> None:
        self._entities: dict[Entity, tuple[dict[str, str], int]] = {}

    async def entity_config_changes(self, since_version: int) -> EntityChanges:
        newer = {
            entity: dict(configs)
            for entity, (configs, version) in self._entities.items()
            if version > since_version
        }
        return EntityChanges(version=self._version, server=self.server, configs=newer)

    async def alter_entity_configs(self, changes: Sequence[EntityChange]) -> EntityConfigValues:
        for change in changes:
            old, _ = self._entities.get(change.entity, ({}, 0))
            if change.expected is not None and change.expected != old:
                raise ConfigsChanged(change.entity.name)
        self._version += 1
        for change in changes:
            old, _ = self._entities.get(change.entity, ({}, 0))
            wanted = {**({} if change.replace else old), **change.changes}
            configs = {name: value for name, value in wanted.items() if value is not None}
            self._entities[change.entity] = configs, self._version
        return {change.entity: dict(self._entities[change.entity][0]) for change in changes}
