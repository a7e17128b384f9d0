"""Bring a database to the schema that this code speaks.

All steps that a database lacks are applied in one transaction under an advisory lock: brokers that
start together wait for the first, and a crash leaves nothing half done.
"""

import asyncpg
import structlog

from sql import Migration, migrations, query
from storage.config import PostgresConfig
from storage.errors import DatabaseNotSupported, PostgresRefused
from storage.postgres.postgres_connection import (
    Connection,
    unavailable_without_answer,
    unavailable_without_entry,
)

MIGRATE_TIMEOUT_S = 300.0

log = structlog.get_logger()


async def migrate(dsn: str, config: PostgresConfig) -> list[str]:
    """Apply what is missing; return the names of what was applied.

    Raises:
        DatabaseNotSupported: this code must not touch that database.
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
            try:
                async with connection.transaction():
                    applied = await _apply_missing(connection)
            except asyncpg.InsufficientPrivilegeError as error:
                raise await _refusal(connection, error) from error
            await connection.close()
    finally:
        connection.terminate()
    if applied:
        log.info("database migrated", migrations=applied)
    return applied


async def _apply_missing(connection: Connection) -> list[str]:
    await connection.execute(query("migration_lock"))
    await connection.execute(query("migration_create_schema"))
    await connection.execute(query("migration_create_table"))
    rows = await connection.fetch(query("migration_list"))
    missing = find_missing({row["name"]: row["checksum"] for row in rows}, migrations())
    for migration in missing:
        await connection.execute(migration.text)
        await connection.execute(query("migration_record"), migration.name, migration.checksum)
    return [migration.name for migration in missing]


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
                rows = await connection.fetch(query("migration_list"))
            except asyncpg.InsufficientPrivilegeError as error:
                raise await _refusal(connection, error) from error
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        rows = []
    finally:
        connection.terminate()
    applied = {row["name"]: row["checksum"] for row in rows}
    return [migration.name for migration in find_missing(applied, migrations())]


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


def find_missing(applied: dict[str, str], known: list[Migration]) -> list[Migration]:
    """Return the migrations of `known` that are not in `applied` (name -> checksum), in order.

    Raises:
        DatabaseNotSupported: `applied` holds what is not known, or a known one with another text.
    """
    unknown = sorted(applied.keys() - {migration.name for migration in known})
    if unknown:
        raise DatabaseNotSupported(
            f"the metadata database is newer than this version of StreamHouse: it has "
            f"{', '.join(unknown)}. Run the version that migrated it, or a later one."
        )
    changed = [m.name for m in known if applied.get(m.name, m.checksum) != m.checksum]
    if changed:
        raise DatabaseNotSupported(
            f"the metadata database was migrated with another text of {', '.join(changed)}. "
            f"Run the version that migrated it."
        )
    return [migration for migration in known if migration.name not in applied]
