"""The configs of thousands of entities are read and written without keeping others waiting."""

import itertools
from types import SimpleNamespace
from typing import Any, cast

from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from storage.metadata.metadata_postgres_entity_configs import PostgresEntityConfigs
from storage.postgres.postgres_pool import PostgresPool
from storage.postgres.postgres_rows import ROWS_AT_ONCE
from tests.support.turns import others_going_on

ENTITIES = [Entity(EntityKind.GROUP, str(number)) for number in range(20 * ROWS_AT_ONCE)]
EXPECTED = {entity: {"a": "1"} for entity in ENTITIES}


async def rows(*_: Any) -> list[dict[str, object]]:
    """Return what Postgres has of all, at once: only what is done with it takes turns."""
    return [
        {
            "metadata_version": 1,
            "server": 1,
            "kind": entity.kind.value,
            "name": entity.name,
            "configs": '{"a": "1"}',
        }
        for entity in ENTITIES
    ]


async def test_others_have_their_turns_while_thousands_are_read_and_written() -> None:
    # Given a store that answers at once
    store = PostgresEntityConfigs()
    store._pool = cast("PostgresPool", SimpleNamespace(fetch=rows, fetch_durable=rows))

    # When all is read, then others have turns between twenty pieces
    turns = itertools.count()
    async with others_going_on(turns):
        assert (await store.entity_config_changes(0)).configs == EXPECTED
    assert next(turns) >= 19

    # And so it is when all is changed: what is asked for, and what is set then
    changes = [EntityChange(entity=entity, changes={"a": "1"}) for entity in ENTITIES]
    turns = itertools.count()
    async with others_going_on(turns):
        assert await store.alter_entity_configs(changes) == EXPECTED
    assert next(turns) >= 2 * 19
