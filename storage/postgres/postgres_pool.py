"""Connections to Postgres: how they are made, and which of their failures mean "no answer".

Every failure after which nobody can know whether a statement took effect, or which goes away by
itself, becomes MetadataUnavailable. All else (a constraint, a type) is a bug of ours and stays what
it is. The DSN holds a password: nothing here logs it or shows it in a repr.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from sql import query
from storage.config import PostgresConfig
from storage.errors import (
    MetadataUnavailable,
    NothingWritten,
    PostgresNotTrusted,
    PostgresRefused,
)

# Text, because only the type checker knows that these are generic.
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
PooledConnection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"

LOCK_TIMEOUT_S = 2.0
IDLE_IN_TRANSACTION_S = 10.0
GOODBYE_S = 1.0

NO_ANSWER = (
    OSError,  # refused, reset; TimeoutError is one, too
    asyncpg.PostgresConnectionError,  # 08: the connection broke
    asyncpg.TransactionRollbackError,  # 40: deadlock
    asyncpg.InsufficientResourcesError,  # 53: too many connections, disk full
    asyncpg.LockNotAvailableError,  # 55P03: lock_timeout
    asyncpg.OperatorInterventionError,  # 57: cancelled, shutting down, crashed, starting up
    asyncpg.PostgresSystemError,  # 58: I/O error
    asyncpg.ReadOnlySQLTransactionError,  # 25006: connected to what has become a standby
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,  # the connection was lost before the statement was sent
    asyncpg.InternalClientError,  # a dying server's FATAL came while the connection was idle
)


_REFUSALS = (
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,  # InvalidPasswordError is one, too
)
_NO_TLS = "rejected SSL upgrade"  # asyncpg's words; the exception is a plain ConnectionError
_TLS_FIX = "; see its sslmode, sslrootcert, sslcert and sslkey"


@contextmanager
def unavailable_without_answer() -> Iterator[None]:
    """Turn "no answer" into MetadataUnavailable; let everything else pass."""
    try:
        yield
    except asyncpg.DataError:  # an argument of ours that does not fit; an InterfaceError by descent
        raise
    except NO_ANSWER as error:
        refused = isinstance(error, asyncpg.LockNotAvailableError | asyncpg.DeadlockDetectedError)
        kind = NothingWritten if refused else MetadataUnavailable
        raise kind(f"{type(error).__name__}: {error}") from error


@contextmanager
def unavailable_without_entry() -> Iterator[None]:
    """Turn every failure to connect into NothingWritten; the message says which it was.

    Where asking again cannot help, until somebody mends the DSN or the server, it is
    PostgresNotTrusted (the certificate is another's, or there is no TLS) or PostgresRefused (no
    such host, no such database, no such user, another password).
    """
    try:
        yield
    except (ssl.SSLError, asyncpg.ClientConfigurationError) as error:
        raise PostgresNotTrusted(f"no connection as the DSN wants it: {error}{_TLS_FIX}") from error
    except _REFUSALS as error:
        raise PostgresRefused(f"cannot connect: {error}") from error
    except UnicodeError as error:  # from before a resolver is asked
        raise PostgresRefused("cannot connect: no host has such a name") from error
    except (*NO_ANSWER, asyncpg.PostgresError) as error:
        if _NO_TLS in str(error):
            raise PostgresNotTrusted(f"{error}: it has no TLS, and sslmode wants it") from error
        raise NothingWritten(f"cannot connect: {type(error).__name__}: {error}") from error


async def configure(connection: Connection, config: PostgresConfig) -> None:
    """Bound what this session may do on the server, also after we are gone."""
    statement_timeout_ms = int(config.command_timeout_s * 1000 / 2)
    await connection.execute(
        query("session_configure"),
        f"{statement_timeout_ms}ms",
        f"{int(LOCK_TIMEOUT_S * 1000)}ms",
        f"{int(IDLE_IN_TRANSACTION_S * 1000)}ms",
    )
    try:
        await connection.execute(query("session_watch_client"))
    except asyncpg.InvalidParameterValueError:
        return  # the server's platform cannot watch a socket; statement_timeout bounds it there


async def connect(dsn: str, config: PostgresConfig) -> Connection:
    """Open one configured connection.

    Raises:
        MetadataUnavailable: nobody there, no answer in time, or no entry (the message says why).
    """
    with unavailable_without_entry():
        connection: Connection = await asyncpg.connect(
            dsn, timeout=config.connect_timeout_s, command_timeout=config.command_timeout_s
        )
        try:
            await configure(connection, config)
        except BaseException:
            connection.terminate()
            raise
    return connection


class Warnings:
    """What a server said beside the answer to a statement that changes something."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def hear(self, _connection: object, message: asyncpg.PostgresLogMessage) -> None:
        """Listen to a connection."""
        if message.severity_en == "WARNING":
            self._said.append(str(message))

    def forget(self) -> None:
        """Begin anew, before a statement."""
        self._said.clear()

    def check(self) -> None:
        """Take no answer for durable that the server has qualified.

        "Committed locally, but might not have been replicated": an operator cancelled the wait for
        the standby, and the server reports success all the same.

        Raises:
            MetadataUnavailable: there was a warning.
        """
        if self._said:
            raise MetadataUnavailable(f"committed with a warning: {self._said[-1]}")


async def _fetch_unhurried(
    connection: PooledConnection, name: str, arguments: Sequence[object], timeout_s: float
) -> list[asyncpg.Record]:
    """Run a statement that may take `timeout_s` on the server, in a transaction of its own."""
    async with connection.transaction():
        await connection.execute(query("session_allow_time"), f"{int(timeout_s * 1000)}ms")
        return await connection.fetch(query(name), *arguments, timeout=timeout_s)


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
            await configure(connection, config)

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
            return await _fetch_unhurried(connection, name, arguments, timeout_s)

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
                    rows = await _fetch_unhurried(connection, name, arguments, timeout_s)
            finally:
                with suppress(asyncpg.InterfaceError):  # it broke, and is out of the pool already
                    connection.remove_log_listener(warnings.hear)
        warnings.check()
        return list(rows)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[PooledConnection]:
        with unavailable_without_entry():
            connection = await self._pool.acquire(timeout=self._config.connect_timeout_s)
        with unavailable_without_answer():
            try:
                yield connection
            except NO_ANSWER:
                # Its session may sit on a demoted server, or still be busy; waiting for it to be
                # polite would hang on a dead network. One that broke is out of the pool already.
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
                connection = await connect(self._dsn, self._config)
                connection.add_log_listener(self._warnings.hear)
                self._connection = connection
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

    async def close(self) -> None:
        """Close the connection; a server that does not answer the goodbye is not waited for."""
        if self._connection is not None:
            with suppress(*NO_ANSWER):
                await self._connection.close(timeout=GOODBYE_S)
            self._connection = None
