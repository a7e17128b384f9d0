"""Locks on rows that a broker waits for, so that Postgres gives it no answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from storage.postgres.postgres_binaries import unix_socket_dsn
from tests.support.broker import BrokerProcess

_WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0
"""


@asynccontextmanager
async def locked(broker: BrokerProcess, rows: str, *arguments: object) -> AsyncIterator[None]:
    """Hold the locks on rows of an embedded Postgres: TABLE WHERE CONDITION, with $1 and so on."""
    database = await asyncpg.connect(unix_socket_dsn(broker.log.parent / "postgres"))
    try:
        async with database.transaction():
            await database.execute(
                f"SELECT FROM streamhouse_internal.{rows} FOR UPDATE",
                *arguments,
            )
            yield
    finally:
        await database.close()


async def until_waits(broker: BrokerProcess, statement: str) -> None:
    """Wait until a statement with that text waits for a lock of an embedded Postgres."""
    database = await asyncpg.connect(unix_socket_dsn(broker.log.parent / "postgres"))
    try:
        while not await database.fetchval(_WAITING, statement):
            await asyncio.sleep(0.02)
    finally:
        await database.close()
