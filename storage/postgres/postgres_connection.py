"""Connections to Postgres: how they are made, and which of their failures mean "no answer".

Every failure after which nobody can know whether a statement took effect, or which goes away by
itself, becomes MetadataUnavailable. All else (a constraint, a type) is a bug of ours and stays what
it is. The DSN holds a password: nothing here logs it or shows it in a repr.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import asyncpg

from sql import query
from storage.config import PostgresConfig
from storage.errors import (
    MetadataUnavailable,
    NothingWritten,
    PostgresNotTrusted,
    PostgresRefused,
    RowsHeld,
)

# Text, because only the type checker knows that it is generic.
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

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
_FOREIGN_STATEMENTS = (
    asyncpg.DuplicatePreparedStatementError,
    asyncpg.InvalidSQLStatementNameError,
)
SHARED_SESSIONS = (
    "a pooler stands before Postgres that gives each transaction whatever session is free, and "
    "brokers need theirs for themselves: let it pool sessions (PgBouncer: pool_mode=session), or "
    "connect to Postgres itself"
)
STANDBY = "this Postgres is a standby; target_session_attrs=read-write finds the primary of several"
_NO_TLS = "rejected SSL upgrade"  # asyncpg's words; the exception is a plain ConnectionError
_TLS_FIX = "; see its sslmode, sslrootcert, sslcert and sslkey"


@contextmanager
def unavailable_without_answer() -> Iterator[None]:
    """Turn "no answer" into MetadataUnavailable; let everything else pass."""
    try:
        yield
    except asyncpg.DataError:  # an argument of ours that does not fit; an InterfaceError by descent
        raise
    except _FOREIGN_STATEMENTS as error:
        raise PostgresRefused(SHARED_SESSIONS) from error
    except NO_ANSWER as error:
        refused = isinstance(error, asyncpg.LockNotAvailableError | asyncpg.DeadlockDetectedError)
        kind = RowsHeld if refused else MetadataUnavailable
        raise kind(f"{type(error).__name__}: {error}") from error


@contextmanager
def unavailable_without_entry() -> Iterator[None]:
    """Turn every failure to connect into NothingWritten; the message says which it was.

    Where asking again cannot help, until somebody mends the DSN or the server, it is
    PostgresNotTrusted (the certificate is another's, or there is no TLS) or PostgresRefused (no
    such host, no such database, no such user, another password, a pooler that shares sessions).
    """
    try:
        yield
    except (ssl.SSLError, asyncpg.ClientConfigurationError) as error:
        raise PostgresNotTrusted(f"no connection as the DSN wants it: {error}{_TLS_FIX}") from error
    except _FOREIGN_STATEMENTS as error:
        raise PostgresRefused(SHARED_SESSIONS) from error
    except _REFUSALS as error:
        raise PostgresRefused(f"cannot connect: {error}") from error
    except UnicodeError as error:  # from before a resolver is asked
        raise PostgresRefused("cannot connect: no host has such a name") from error
    except (*NO_ANSWER, asyncpg.PostgresError) as error:
        if _NO_TLS in str(error):
            raise PostgresNotTrusted(f"{error}: it has no TLS, and sslmode wants it") from error
        raise NothingWritten(f"cannot connect: {type(error).__name__}: {error}") from error


async def configure(connection: Connection, config: PostgresConfig) -> None:
    """Bound what this session may do on the server, also after we are gone.

    Raises:
        NothingWritten: it is a standby, which knows less than what was answered, and takes nothing.
    """
    session = await connection.fetchrow(
        query("session_configure"),
        f"{int(config.statement_timeout_s * 1000)}ms",
        f"{int(LOCK_TIMEOUT_S * 1000)}ms",
        f"{int(IDLE_IN_TRANSACTION_S * 1000)}ms",
    )
    if session is not None and session["is_standby"]:
        raise NothingWritten(f"cannot connect: {STANDBY}")
    await watch_client(connection)


async def watch_client(connection: Connection) -> None:
    """Let the server end a statement soon after whoever asked for it has gone."""
    try:
        await connection.execute(query("session_watch_client"))
    except asyncpg.InvalidParameterValueError:
        return  # the server's platform cannot watch a socket; what it runs ends by itself there


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


async def connect_unlimited(
    dsn: str, config: PostgresConfig, *, command_timeout_s: float
) -> Connection:
    """Open one connection whose session ends for no limit of its role or database.

    Raises:
        MetadataUnavailable: as connect(); a standby will do.
    """
    with unavailable_without_entry():
        connection: Connection = await asyncpg.connect(
            dsn, timeout=config.connect_timeout_s, command_timeout=command_timeout_s
        )
        try:
            await connection.execute(query("session_lift_limits"))
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
