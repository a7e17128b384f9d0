"""What only a real Postgres can show of brokers: statements that wait for each other."""

import asyncio
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

import asyncpg

from sql import query
from storage.config import PostgresConfig
from storage.metadata_postgres import PostgresMetadata
from storage.postgres_pool import Connection, configure
from tests.support.postgres import create_database, until

TTL_MS: Final = 60_000
HEARTBEAT: Final = query("broker_heartbeat")


def told(rows: list[asyncpg.Record]) -> tuple[int, list[int]]:
    """Return the generation and who is alive in it."""
    return rows[0]["generation"], [row["node_id"] for row in rows]


async def waits_for_a_lock(connection: Connection) -> bool | None:
    found = await connection.fetchval(
        "SELECT true FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database() AND query LIKE '%broker_heartbeat%'"
    )
    return found or None


async def test_a_broker_that_is_called_dead_while_it_beats_takes_a_generation_of_its_own() -> None:
    # Given two brokers, the second of which was silent for too long
    dsn = await create_database()
    store = await PostgresMetadata.open(dsn, PostgresConfig(pool_size=2))
    ids = [uuid4(), uuid4()]
    for incarnation, address in zip(ids, ("a:1", "b:1"), strict=True):
        await store.register_broker(
            incarnation, [address], rack=None, preferred_node_id=0, alone=False
        )
    first, second, watcher = [await asyncpg.connect(dsn) for _ in range(3)]
    await configure(first, PostgresConfig())
    await configure(second, PostgresConfig())
    await watcher.execute(
        "UPDATE streamhouse_internal.brokers SET returned_at = returned_at - $1::interval, "
        "heartbeat_at = heartbeat_at - CASE node_id WHEN 1 THEN $1::interval ELSE '0' END",
        timedelta(milliseconds=2 * TTL_MS),
    )

    # When the first one calls it dead, and its heartbeat comes before that is committed
    judging = first.transaction()
    await judging.start()
    seen_first = told(await first.fetch(HEARTBEAT, 0, ids[0], 1, TTL_MS))
    beating: asyncio.Task[Any] = asyncio.create_task(second.fetch(HEARTBEAT, 1, ids[1], 1, TTL_MS))
    await until(lambda: waits_for_a_lock(watcher))
    await judging.commit()
    seen_second = told(await beating)

    # Then it is alive again in the next generation, and the first one hears of it
    assert seen_first == (2, [0])
    assert seen_second == (3, [0, 1])
    assert told(await first.fetch(HEARTBEAT, 0, ids[0], 2, TTL_MS)) == (3, [0, 1])
    for connection in (first, second, watcher):
        await connection.close()
    await store.close()
