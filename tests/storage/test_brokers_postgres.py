"""What only a real Postgres can show of brokers: statements that wait for each other."""

import asyncio
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import asyncpg
import pytest

from sql import query
from storage.errors import IdentityTaken
from storage.metadata.brokers import Membership
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres.postgres_connection import Connection, configure
from tests.support.patience import PATIENT
from tests.support.postgres import create_database, until

pytestmark = pytest.mark.usefixtures("patience")

TTL_MS: Final = 60_000
HEARTBEAT: Final = query("broker_heartbeat")
FORGET: Final = query("broker_forget")
CHANGE: Final = """
UPDATE streamhouse_internal.cluster SET next_producer_id = next_producer_id + 1;
SELECT pg_sleep(0.02)
"""  # of what is under the cluster's lock; together they are one transaction


def told(rows: list[asyncpg.Record]) -> tuple[int, list[int]]:
    """Return the generation and who is alive in it."""
    return rows[0]["generation"], [row["node_id"] for row in rows if row["addresses"]]


async def register(store: PostgresMetadata, incarnation: UUID, address: str) -> Membership:
    return await store.register_broker(
        incarnation,
        [address],
        rack=None,
        preferred_node_id=0,
        alone=False,
        time_to_live_ms=TTL_MS,
    )


async def wait_for_a_lock(watcher: Connection, statement: str, count: int = 1) -> None:
    """Wait until so many sessions that run a statement wait for a lock."""

    async def probe() -> bool | None:
        # The view shows a transaction the same each time otherwise.
        await watcher.execute("SELECT pg_stat_clear_snapshot()")
        found = await watcher.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database() AND query = left($1, 1023)",  # as much as it shows
            statement,
        )
        return found == count or None

    await until(probe)


async def one_silent_broker() -> tuple[PostgresMetadata, list[UUID], list[Connection]]:
    """Return the store of two brokers, the second of which is silent, and sessions of brokers."""
    dsn = await create_database()
    store = await PostgresMetadata.open(dsn, PATIENT)
    ids = [uuid4(), uuid4()]
    for incarnation, address in zip(ids, ("a:1", "b:1"), strict=True):
        await register(store, incarnation, address)
    sessions = [await asyncpg.connect(dsn) for _ in range(4)]
    for session in sessions:
        await configure(session, PATIENT)
    await sessions[0].execute(
        "UPDATE streamhouse_internal.brokers SET returned_at = returned_at - $1::interval, "
        "heartbeat_at = heartbeat_at - CASE node_id WHEN 1 THEN $1::interval ELSE '1s' END",
        timedelta(milliseconds=2 * TTL_MS),
    )
    return store, ids, sessions


async def test_a_broker_that_is_called_dead_while_it_beats_takes_a_generation_of_its_own() -> None:
    # Given two brokers, the second of which was silent for too long
    store, ids, sessions = await one_silent_broker()
    first, second, watcher, *_ = sessions

    # When the first one calls it dead, and its heartbeat comes before that is committed
    judging = first.transaction()
    await judging.start()
    seen_first = told(await first.fetch(HEARTBEAT, 0, ids[0], 1, TTL_MS))
    beating: asyncio.Task[Any] = asyncio.create_task(second.fetch(HEARTBEAT, 1, ids[1], 1, TTL_MS))
    await wait_for_a_lock(watcher, HEARTBEAT)
    await judging.commit()
    seen_second = told(await beating)

    # Then it is alive again in the next generation, and the first one hears of it
    assert seen_first == (2, [0])
    assert seen_second == (3, [0, 1])
    assert told(await first.fetch(HEARTBEAT, 0, ids[0], 2, TTL_MS)) == (3, [0, 1])
    for connection in sessions:
        await connection.close()
    await store.close()


async def test_a_heartbeat_does_not_wait_long_to_call_another_broker_dead() -> None:
    # Given two brokers, the second of which is silent, and somebody who deletes a big topic
    store, ids, sessions = await one_silent_broker()
    first, deleting, *_ = sessions
    heard = "SELECT heartbeat_at FROM streamhouse.brokers WHERE node_id = 0"
    before = await first.fetchval(heard)
    patience = await first.fetchval("SHOW lock_timeout")
    async with deleting.transaction():
        await deleting.execute("SELECT FROM streamhouse_internal.cluster FOR UPDATE")

        # When the first one is heard of meanwhile, then that counts
        assert told(await first.fetch(HEARTBEAT, 0, ids[0], 1, TTL_MS)) == (1, [0, 1])
        assert await first.fetchval(heard) > before

    # And the next time it calls the second one dead, and has the patience for other locks left
    async with first.transaction():
        assert told(await first.fetch(HEARTBEAT, 0, ids[0], 1, TTL_MS)) == (2, [0])
        assert await first.fetchval("SHOW lock_timeout") == patience
    for connection in sessions:
        await connection.close()
    await store.close()


async def test_a_broker_is_called_dead_while_others_make_one_change_after_the_other() -> None:
    # Given two brokers, the second of which is silent, and changes that lock the cluster in turn
    store, ids, sessions = await one_silent_broker()
    first, *changing = sessions
    ended = asyncio.Event()

    async def make_changes(connection: Connection) -> None:
        while not ended.is_set():
            await connection.execute(CHANGE)

    changes = [asyncio.create_task(make_changes(connection)) for connection in changing]
    await wait_for_a_lock(first, CHANGE, count=len(changing) - 1)

    # When the first one is heard of a few times
    seen = [told(await first.fetch(HEARTBEAT, 0, ids[0], 1, TTL_MS)) for _ in range(8)]
    ended.set()
    await asyncio.gather(*changes)

    # Then it calls the second one dead
    assert seen[-1] == (2, [0])
    for connection in sessions:
        await connection.close()
    await store.close()


async def one_dead_broker() -> tuple[PostgresMetadata, list[Connection]]:
    """Return the store of a cluster whose only broker has stopped, and connections to it."""
    dsn = await create_database()
    store = await PostgresMetadata.open(dsn, PATIENT)
    incarnation = uuid4()
    await register(store, incarnation, "a:1")
    await store.deregister_broker(0, incarnation)
    return store, [await asyncpg.connect(dsn) for _ in range(3)]


async def test_a_dead_broker_is_forgotten_once() -> None:
    # Given a dead broker, and two who wait to forget it
    store, connections = await one_dead_broker()
    *forgetting, watcher = connections
    async with watcher.transaction():
        await watcher.execute("SELECT FROM streamhouse_internal.cluster FOR UPDATE")
        asking = [asyncio.create_task(one.fetchval(FORGET, 0)) for one in forgetting]
        await wait_for_a_lock(watcher, FORGET, count=2)

    # Then it was dead for one of them, and nobody calls it alive
    assert sorted(await asyncio.gather(*asking)) == ["dead", "unknown"]
    for connection in connections:
        await connection.close()
    await store.close()


async def test_a_broker_that_comes_back_is_not_forgotten() -> None:
    # Given a dead broker that registers again, which is not committed yet
    store, connections = await one_dead_broker()
    returning, forgetting, watcher = connections
    registering = returning.transaction()
    await registering.start()
    arguments = (uuid4(), ["a:1"], None, 0, False, TTL_MS)
    seen = told(await returning.fetch(query("broker_register"), *arguments))

    # When somebody forgets it, then it is alive
    asking: asyncio.Task[Any] = asyncio.create_task(forgetting.fetchval(FORGET, 0))
    await wait_for_a_lock(watcher, FORGET)
    await registering.commit()
    assert await asking == "live"
    assert seen[1] == [0]
    assert await store.dead_brokers() == []
    for connection in connections:
        await connection.close()
    await store.close()


async def test_a_broker_whose_sessions_have_ended_can_come_back_at_once() -> None:
    # Given a broker that beats, and another process that was told to advertise its address
    dsn = await create_database()
    stores = [await PostgresMetadata.open(dsn, PATIENT) for _ in range(2)]
    first, second = stores
    incarnation = uuid4()
    await register(first, incarnation, "a:1")
    await first.broker_heartbeat(0, incarnation, known_generation=0, time_to_live_ms=TTL_MS)
    with pytest.raises(IdentityTaken):
        await register(second, uuid4(), "a:1")

    # When the broker's process ends without a word
    await first.close()

    # Then the other one is let in without waiting for its heartbeat to grow old
    async def probe() -> Membership | None:
        try:
            return await register(second, uuid4(), "a:1")
        except IdentityTaken:  # the server has not noticed yet
            return None

    assert (await until(probe, timeout_s=TTL_MS / 2_000)).node_id == 0
    await second.close()


async def test_a_broker_that_lost_its_session_is_alive_with_the_next_heartbeat() -> None:
    # Given a broker that has a new session since it registered
    dsn = await create_database()
    first, other = [await PostgresMetadata.open(dsn, PATIENT) for _ in range(2)]
    incarnation = uuid4()
    await register(first, incarnation, "a:1")
    await first._broker_connection.close()
    await first.broker_heartbeat(0, incarnation, known_generation=0, time_to_live_ms=TTL_MS)

    # When another process comes with its address, then it is refused
    with pytest.raises(IdentityTaken):
        await register(other, uuid4(), "a:1")
    for store in (first, other):
        await store.close()
