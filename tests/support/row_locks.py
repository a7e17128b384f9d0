"""Locks on rows that a broker waits for, so that Postgres gives it no answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from storage.postgres.postgres_binaries import unix_socket_dsn
from tests.support.broker import BrokerProcess


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
