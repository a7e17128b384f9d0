"""The metadata port's configs of everything but topics, on Postgres."""

import json
from collections.abc import Mapping, Sequence
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
from storage.postgres.postgres_rows import read_rows
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
            version=rows[0]["metadata_version"],
            server=rows[0]["server"],
            configs=await _configs(found),
        )

    async def alter_entity_configs(self, changes: Sequence[EntityChange]) -> EntityConfigValues:
        rows = await self._pool.fetch_durable(
            "entity_config_alter",
            [change.entity.kind.value for change in changes],
            [to_stored(change.entity.name) for change in changes],
            await read_rows(changes, lambda change: _to_json(change.changes)),
            [change.replace for change in changes],
            await read_rows(changes, lambda change: _to_json(change.expected)),
        )
        if changes and not rows:
            raise ConfigsChanged(", ".join(change.entity.name for change in changes))
        return await _configs(rows)


def _to_json(configs: Mapping[str, str | None] | None) -> str | None:
    if configs is None:
        return None
    return json.dumps(
        {
            to_stored(name): None if value is None else to_stored(value)
            for name, value in configs.items()
        }
    )


async def _configs(rows: Sequence[asyncpg.Record]) -> EntityConfigValues:
    return dict(await read_rows(rows, _entity))


def _entity(row: asyncpg.Record) -> tuple[Entity, Mapping[str, str]]:
    configs = {
        from_stored(name): from_stored(value) for name, value in json.loads(row["configs"]).items()
    }
    return Entity(EntityKind(row["kind"]), from_stored(row["name"])), configs
