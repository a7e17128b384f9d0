"""The metadata port's configs of everything but topics, on Postgres."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import asyncpg

from storage.errors import ConfigsChanged
from storage.metadata.entity_configs import (
    Entity,
    EntityChange,
    EntityChanges,
    EntityConfigValues,
    EntityKind,
)
from storage.postgres.postgres_pool import PostgresPool
from storage.postgres.postgres_text import from_stored, to_stored

_KINDS: Final = frozenset(EntityKind)
"""Those that this version knows: brokers of a later one may have others, while they replace us."""


class PostgresEntityConfigs:
    """Configs of entities; see EntityConfigStore for what each method promises."""

    _pool: PostgresPool

    async def entity_config_changes(self, since_version: int) -> EntityChanges:
        rows = await self._pool.fetch("entity_config_find_changes", since_version)
        found = [row for row in rows if row["kind"] in _KINDS]
        return EntityChanges(
            version=rows[0]["metadata_version"], server=rows[0]["server"], configs=_configs(found)
        )

    async def alter_entity_configs(self, changes: Sequence[EntityChange]) -> EntityConfigValues:
        rows = await self._pool.fetch_durable(
            "entity_config_alter",
            [change.entity.kind.value for change in changes],
            [to_stored(change.entity.name) for change in changes],
            [json.dumps(_to_stored(change.changes)) for change in changes],
            [change.replace for change in changes],
            [
                None if change.expected is None else json.dumps(_to_stored(change.expected))
                for change in changes
            ],
        )
        if changes and not rows:
            raise ConfigsChanged(", ".join(change.entity.name for change in changes))
        return _configs(rows)


def _to_stored(changes: Mapping[str, str | None]) -> dict[str, str | None]:
    return {
        to_stored(name): None if value is None else to_stored(value)
        for name, value in changes.items()
    }


def _configs(rows: Iterable[asyncpg.Record]) -> EntityConfigValues:
    return {
        Entity(EntityKind(row["kind"]), from_stored(row["name"])): {
            from_stored(name): from_stored(value)
            for name, value in json.loads(row["configs"]).items()
        }
        for row in rows
    }
