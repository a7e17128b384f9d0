"""A pool of connections to Postgres, for everything but what has to keep its order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from sql import query
from storage.config import PostgresConfig
from storage.errors import PostgresRefused
from storage.postgres.postgres_connection import (
    GOODBYE_S,
    NO_ANSWER,
    SHARED_SESSIONS,
    Connection,
    Warnings,
    configure,
    unavailable_without_answer,
    unavailable_without_entry,
)

# Text, because only the type checker knows that these are generic.
PooledConnection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"


class PostgresPool:
    """Connections for everything but commits."""

    def __init__(self, pool: Pool, config: PostgresConfig) -> None:
        self._pool = pool
        self._config = config

    @classmethod
    async def open(cls, dsn: str, config: PostgresConfig) -> "PostgresPool":
        """Connect once, so that a wrong address shows at the start.

        Raises:
            MetadataUnavailable: as connect().
        """

        async def set_up(connection: Connection) -> None:
            try:
                await configure(connection, config)
            except BaseException:  # cancelled, too: asyncpg would wait for the answer to a goodbye
                connection.terminate()
                raise

        async def keep(_connection: Connection) -> None:
            """Leave the session as it is; nothing here changes it, and RESET costs a round trip."""

        pool: Pool = asyncpg.create_pool(
            dsn,
            min_size=0,  # else asyncpg keeps trying, and logging, while the server is away
            max_size=config.pool_size,
            init=set_up,
            reset=keep,
            timeout=config.connect_timeout_s,
            command_timeout=config.command_timeout_s,
        )
        await pool
        opened = cls(pool, config)
        try:
            async with opened._connection():
                pass
        except BaseException:
            pool.terminate()
            raise
        return opened

    async def fetch(
        self, name: str, *arguments: object, timeout_s: float | None = None
    ) -> list[asyncpg.Record]:
        """Run the statement `name` of sql/queries; return its rows.

        Raises:
            MetadataUnavailable: no answer; what the statement changes may or may not be changed.
        """
        async with self._connection() as connection:
            return await connection.fetch(query(name), *arguments, timeout=timeout_s)

    async def fetch_unhurried(
        self, name: str, *arguments: object, timeout_s: float
    ) -> list[asyncpg.Record]:
        """Run a statement that may take `timeout_s` on the server, too; else as fetch()."""
        async with self._connection() as connection:
            return await self._fetch_unhurried(connection, name, arguments, timeout_s)

    async def fetch_durable(
        self, name: str, *arguments: object, timeout_s: float | None = None
    ) -> list[asyncpg.Record]:
        """Run a statement whose effect must be as durable as the server is told to make it.

        Args:
            name: of the statement.
            arguments: of the statement.
            timeout_s: what it may take on the server, if that is more than others may.

        Raises:
            MetadataUnavailable: as fetch(); or the server did not wait for its standby, and may
                lose what it says it did: repeat it.
        """
        warnings = Warnings()
        async with self._connection() as connection:
            connection.add_log_listener(warnings.hear)
            try:
                if timeout_s is None:
                    rows = await connection.fetch(query(name), *arguments)
                else:
                    rows = await self._fetch_unhurried(connection, name, arguments, timeout_s)
            finally:
                with suppress(asyncpg.InterfaceError):  # it broke, and is out of the pool already
                    connection.remove_log_listener(warnings.hear)
        warnings.check()
        return list(rows)

    async def _fetch_unhurried(
        self,
        connection: PooledConnection,
        name: str,
        arguments: Sequence[object],
        timeout_s: float,
    ) -> list[asyncpg.Record]:
        """Run a statement that may take `timeout_s` on the server.

        It is the session that is told so: were it a transaction around the statement, a process
        that stops in it would keep what it has locked from others.
        """
        try:
            await _allow_time(connection, timeout_s)
            rows = await connection.fetch(query(name), *arguments, timeout=timeout_s)
            await _allow_time(connection, self._config.statement_timeout_s)
        except BaseException:
            with suppress(asyncpg.InterfaceError):
                connection.terminate()  # it would be as patient with whatever comes next
            raise
        return list(rows)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[PooledConnection]:
        with unavailable_without_entry():
            connection = await self._pool.acquire(timeout=self._config.connect_timeout_s)
        with unavailable_without_answer():
            try:
                yield connection
            except (*NO_ANSWER, asyncio.CancelledError):
                # Its session may sit on a demoted server, or still be busy; waiting for it to be
                # polite would hang on a dead network, and what release() says when that has taken
                # too long would take the place of the cancellation. One that broke is out of the
                # pool already.
                with suppress(asyncpg.InterfaceError):
                    connection.terminate()
                raise
            finally:
                await self._pool.release(connection)

    async def close(self) -> None:
        """Close all connections; a server that does not answer the goodbye is not waited for."""
        with suppress(*NO_ANSWER):
            async with asyncio.timeout(GOODBYE_S):
                await self._pool.close()


async def _allow_time(connection: PooledConnection, timeout_s: float) -> None:
    await connection.execute(query("session_allow_time"), f"{int(timeout_s * 1000)}ms")


async def check_sessions(first: PostgresPool, second: PostgresPool) -> None:
    """See that two connections have a session each, and keep it: they set up what is theirs.

    Raises:
        PostgresRefused: they have not.
        MetadataUnavailable: no answer.
    """
    pids = [(await pool.fetch("session_pid"))[0]["pid"] for pool in (first, first, second)]
    if pids[0] != pids[1] or pids[1] == pids[2]:
        raise PostgresRefused(SHARED_SESSIONS)
