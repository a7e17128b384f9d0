"""A connection to Postgres for statements that keep their order."""

import asyncio
from contextlib import suppress

import asyncpg

from sql import query
from storage.config import PostgresConfig
from storage.postgres.postgres_connection import (
    GOODBYE_S,
    NO_ANSWER,
    Connection,
    Warnings,
    connect,
    unavailable_without_answer,
)


class CommitConnection:
    """One connection for statements that keep their order: commits, group writes, heartbeats."""

    def __init__(self, dsn: str, config: PostgresConfig) -> None:
        self._dsn = dsn
        self._config = config
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()  # first come, first served
        self._warnings = Warnings()

    async def fetch_row(self, name: str, *arguments: object) -> asyncpg.Record:
        """Run the statement `name`; return its only row. Else as fetch()."""
        (row,) = await self.fetch(name, *arguments)
        return row

    async def fetch(self, name: str, *arguments: object) -> list[asyncpg.Record]:
        """Run the statement `name` in a transaction of its own; return its rows.

        Raises:
            MetadataUnavailable: no answer. The connection is gone with whatever it was doing, and
                the next call makes a new one.
        """
        await self._turn.acquire()
        try:
            connection = self._connection
            if connection is None or connection.is_closed():
                connection = await self._connect()
            self._warnings.forget()
            try:
                rows = await connection.fetch(query(name), *arguments)
            except BaseException:  # cancelled, too: nobody can know what the session still does
                self._connection = None
                connection.terminate()
                with unavailable_without_answer():
                    raise
            self._warnings.check()
            return rows
        finally:
            self._turn.release()

    async def hold(self) -> None:
        """Connect, if it is not: who waits with that may find that others have all sessions.

        Raises:
            MetadataUnavailable: as connect().
        """
        async with self._turn:
            if self._connection is None or self._connection.is_closed():
                await self._connect()

    async def _connect(self) -> Connection:
        connection = self._connection = await connect(self._dsn, self._config)
        connection.add_log_listener(self._warnings.hear)
        return connection

    async def close(self) -> None:
        """Close the connection; a server that does not answer the goodbye is not waited for."""
        if self._connection is not None:
            with suppress(*NO_ANSWER):
                await self._connection.close(timeout=GOODBYE_S)
            self._connection = None
