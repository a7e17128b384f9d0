"""Bring a database to the schema that this code speaks.

All steps that a database lacks are applied in one transaction under an advisory lock: brokers that
start together wait for the first, and a crash leaves nothing half done. Brokers of older versions
serve meanwhile, so a step that does not get a table at once gives up its place before it: all of
their statements would stand behind it. It takes it again when those who used it then have ended. A
step that they cannot work beside waits for their end; who was silent then finds that he is a broker
no more, and who registers after it looks once more.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg
import structlog

from sql import Migration, migrations, query
from storage.config import PostgresConfig
from storage.errors import (
    DatabaseNotSupported,
    OlderBrokersAlive,
    PostgresRefused,
    TableInUse,
)
from storage.postgres.postgres_connection import (
    IDLE_IN_TRANSACTION_S,
    LOCK_TIMEOUT_S,
    Connection,
    unavailable_without_answer,
    unavailable_without_entry,
    watch_client,
)
from storage.postgres.postgres_pool import PostgresPool

MIGRATE_TIMEOUT_S: Final = 300.0
AT_ONCE_S: Final = 0.2
LOOK_S: Final = 0.1
SILENT_MS: Final = 10_000
"""A broker that has not said for so long that it is alive is not waited for."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration that a database has: SHA-256 of its text, and whether it stops older versions."""

    checksum: str
    stops_older: bool


async def migrate(dsn: str, config: PostgresConfig) -> list[str]:
    """Apply what is missing; return the names of what was applied.

    Raises:
        DatabaseNotSupported: this code must not touch that database.
        OlderBrokersAlive: brokers have to be stopped first; nothing was changed.
        TableInUse: somebody uses one for long; nothing was changed.
        PostgresRefused: the role may not do it; the message says what it lacks.
        MetadataUnavailable: no answer; retrying is safe.
    """
    with unavailable_without_entry():
        # A session of its own, without the limits of configure(): an index may take minutes.
        connection: Connection = await asyncpg.connect(
            dsn, timeout=config.connect_timeout_s, command_timeout=MIGRATE_TIMEOUT_S
        )
    try:
        encoding = connection.get_settings().server_encoding
        if encoding != "UTF8":  # what clients call things must have a place
            raise DatabaseNotSupported(
                f"the metadata database has encoding {encoding}; make one with ENCODING 'UTF8'"
            )
        with unavailable_without_answer():
            await watch_client(connection)  # if killed, it must not hold tables until it is done
            # Nor if it stands still, or nothing of it comes through any more.
            idle = f"{int(IDLE_IN_TRANSACTION_S * 1000)}ms"
            await connection.execute(query("session_bound_silence"), idle)
            transaction = connection.transaction()
            await transaction.start()
            try:
                applied = await _apply_missing(connection)
            except asyncpg.InsufficientPrivilegeError as error:
                await transaction.rollback()
                raise await _refusal(connection, error) from error
            except asyncpg.LockNotAvailableError as error:
                raise TableInUse(
                    "a table that this version has to change is in use, by a backup or a query "
                    "that takes long; it is free when that has ended"
                ) from error
            await transaction.commit()
            await connection.close()
    finally:
        connection.terminate()  # and with it a transaction that failed, or was cancelled
    if applied:
        log.info("database migrated", migrations=applied)
    return applied


async def _apply_missing(connection: Connection) -> list[str]:
    await connection.execute(query("migration_lock"))
    await connection.execute(query("migration_create_schema"))
    await connection.execute(query("migration_create_table"))
    applied = await _applied(connection)
    missing = find_missing(applied, migrations())
    if not missing:
        return []
    at_once = connection.transaction()
    await at_once.start()
    try:
        await _apply(connection, applied, missing, lock_timeout_s=AT_ONCE_S)
    except asyncpg.LockNotAvailableError:
        await at_once.rollback()  # and with it the tables that it has got
        if not await _users_end(connection):
            raise
        await _apply(connection, applied, missing, lock_timeout_s=LOCK_TIMEOUT_S)
    else:
        await at_once.commit()
    return [migration.name for migration in missing]


async def _apply(
    connection: Connection,
    applied: Mapping[str, Applied],
    missing: Sequence[Migration],
    *,
    lock_timeout_s: float,
) -> None:
    await connection.execute(query("migration_hurry"), f"{int(lock_timeout_s * 1000)}ms")
    await connection.execute(query("migration_mark_table"))
    if applied and any(migration.stops_older for migration in missing):
        await _end_older_brokers(connection)
    for migration in missing:
        await connection.execute(migration.text)
    await connection.executemany(
        query("migration_record"), [(one.name, one.checksum, one.stops_older) for one in missing]
    )


async def _users_end(connection: Connection) -> bool:
    """Wait for those who use tables now, in nobody's way; return whether they have ended in time.

    A commit has soon; a backup has not.
    """
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    users = await _users(connection)
    while users and time.monotonic() < deadline_s:
        await asyncio.sleep(LOOK_S)
        users &= await _users(connection)
    return not users


async def _users(connection: Connection) -> set[str]:
    return {row["name"] for row in await connection.fetch(query("migration_find_users"))}


async def _applied(connection: Connection) -> dict[str, Applied]:
    return _by_name(await connection.fetch(query("migration_list")))


def _by_name(rows: Iterable[asyncpg.Record]) -> dict[str, Applied]:
    return {row["name"]: Applied(row["checksum"], row["stops_older"]) for row in rows}


async def _end_older_brokers(connection: Connection) -> None:
    await connection.execute(query("migration_lock_brokers"))
    rows = await connection.fetch(query("migration_find_brokers"), SILENT_MS)
    if rows:
        alive = ", ".join(f"{row['node_id']} ({row['identity']})" for row in rows)
        raise OlderBrokersAlive(
            f"brokers of an older version are alive, which cannot go on with the tables of this "
            f"one: {alive}. Stop them all, then start those of this version."
        )
    await connection.execute(query("migration_end_brokers"))


async def missing_migrations(dsn: str, config: PostgresConfig) -> list[str]:
    """Return the names of migrations that a database lacks; nothing is changed.

    Raises:
        DatabaseNotSupported: other code migrated that database.
        PostgresRefused: the role may not look; the message says what it lacks.
        MetadataUnavailable: no answer; retrying is safe.
    """
    with unavailable_without_entry():
        connection: Connection = await asyncpg.connect(
            dsn, timeout=config.connect_timeout_s, command_timeout=config.command_timeout_s
        )
    try:
        with unavailable_without_answer():
            try:
                applied = await _applied(connection)
            except asyncpg.InsufficientPrivilegeError as error:
                raise await _refusal(connection, error) from error
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        applied = {}
    finally:
        connection.terminate()
    return [migration.name for migration in find_missing(applied, migrations())]


async def check_version(pool: PostgresPool) -> None:
    """See, once registered, that no newer version came first: it saw nobody that it would stop.

    Raises:
        DatabaseNotSupported: it did, and stops this one.
        MetadataUnavailable: no answer; retrying is safe.
    """
    find_missing(_by_name(await pool.fetch("migration_list")), migrations())


async def _refusal(
    connection: Connection, error: asyncpg.InsufficientPrivilegeError
) -> PostgresRefused:
    """Say what a role lacks that the server has refused something to."""
    ((database, role, owner),) = await connection.fetch(query("migration_owner"))
    if owner is not None and owner != role:
        fix = f"the brokers' tables belong to the role {owner}: connect as that one"
    else:
        fix = f"brokers make schemas of their own: GRANT CREATE ON DATABASE {database} TO {role}"
    return PostgresRefused(f"{error}; {fix}")


def find_missing(applied: Mapping[str, Applied], known: Sequence[Migration]) -> list[Migration]:
    """Return the migrations of `known` that are not in `applied`, by their names, in order.

    Raises:
        DatabaseNotSupported: `applied` holds what is not known and stops older versions, or a known
            one with another text.
    """
    names = {migration.name for migration in known}
    newer = sorted(name for name in applied.keys() - names if applied[name].stops_older)
    if newer:
        raise DatabaseNotSupported(
            f"the metadata database is newer than this version of StreamHouse: it has "
            f"{', '.join(newer)}. Run the version that migrated it, or a later one."
        )
    changed = [
        each.name
        for each in known
        if each.name in applied and applied[each.name].checksum != each.checksum
    ]
    if changed:
        raise DatabaseNotSupported(
            f"the metadata database was migrated with another text of {', '.join(changed)}. "
            f"Run the version that migrated it."
        )
    return [migration for migration in known if migration.name not in applied]
