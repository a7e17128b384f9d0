"""How a database comes to the schema of a version."""

import asyncio
import re
from dataclasses import replace
from urllib.parse import quote, urlsplit

import asyncpg
import pytest

from sql import BEFORE_THAT_RULE, STOPS_OLDER, Migration, migrations, query
from storage.config import PostgresConfig
from storage.errors import (
    DatabaseNotSupported,
    MetadataUnavailable,
    PostgresRefused,
    TableInUse,
)
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres import migrate as migrate_module
from storage.postgres.migrate import Applied, find_missing, migrate, missing_migrations
from storage.postgres.postgres_connection import Connection
from tests.storage.later_versions import NEW_ONLY, SLOW, STOPPING, migrate_to
from tests.support.lossy_proxy import LossyProxy
from tests.support.patience import PATIENCE_S
from tests.support.postgres import (
    create_database,
    create_empty_database,
    postgres_server,
    short_directory,
    until,
)

FUNCTIONS = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'streamhouse_internal'::regnamespace"


async def test_brokers_that_start_together_migrate_once() -> None:
    # Given an empty database
    dsn = await create_empty_database()

    # When several brokers start on it at the same time
    stores = await asyncio.gather(*(PostgresMetadata.open(dsn) for _ in range(4)))

    # Then all of them work, with the same cluster id, and the next one has nothing to do
    assert len({await store.cluster_id() for store in stores}) == 1
    assert await migrate(dsn, PostgresConfig()) == []
    for store in stores:
        await store.close()


async def test_all_functions_compile() -> None:
    # Given a database in which nothing is migrated
    connection: Connection = await asyncpg.connect(await create_empty_database())
    await connection.execute(query("migration_create_schema"))

    # Then Postgres has no objection to the body of any function: a start does not ask
    async with connection.transaction():
        await connection.execute("SET LOCAL check_function_bodies = on")
        for migration in migrations():
            await connection.execute(migration.text)
        functions = await connection.fetchval(FUNCTIONS)
    assert functions > 40
    await connection.close()


async def test_a_start_waits_for_no_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a database whose list of migrations is being read for a long time
    dsn = await create_database()
    backup: Connection = await asyncpg.connect(dsn)
    reading = backup.transaction()
    await reading.start()
    await backup.execute("LOCK TABLE streamhouse_internal.migrations IN ACCESS SHARE MODE")

    # When a broker starts that has nothing to do, or nothing that needs one alone, then it starts
    async with asyncio.timeout(60):
        assert await migrate(dsn, PostgresConfig()) == []
        assert await migrate_to(NEW_ONLY, dsn, monkeypatch) == [NEW_ONLY.name]
    await reading.rollback()
    await backup.close()


async def test_a_migration_does_not_stand_in_the_way_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a database, and somebody who reads one of its tables and does not come to an end
    dsn = await create_database()
    reader: Connection = await asyncpg.connect(dsn)
    reading = reader.transaction()
    await reading.start()
    await reader.execute("SELECT FROM streamhouse_internal.topics")

    # When a migration wants that table, then it gives up, and changes nothing
    with pytest.raises(TableInUse, match="backup"):
        await migrate_to(STOPPING, dsn, monkeypatch)

    # And goes through when the table is free
    await reading.rollback()
    await reader.close()
    assert await migrate_to(STOPPING, dsn, monkeypatch) == [STOPPING.name]


async def test_a_migration_that_waits_for_a_reader_lets_others_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given somebody who reads a table, and a migration that wants it and has time to wait
    dsn = await create_database()
    reader, other = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    await reader.execute("BEGIN; SELECT FROM streamhouse_internal.topics")
    monkeypatch.setattr("storage.postgres.migrate.LOCK_TIMEOUT_S", 60.0)
    migrating = asyncio.create_task(migrate_to(STOPPING, dsn, monkeypatch))

    # When it has seen that somebody uses the table
    async def waits() -> bool | None:
        found: bool | None = await other.fetchval(
            "SELECT true FROM pg_stat_activity WHERE datname = current_database() "
            "AND state = 'idle in transaction' AND query LIKE '%.virtualtransaction AS name%'"
        )
        return found

    await until(waits)

    # Then it is in nobody's way, and goes through when that reader has ended
    await other.execute("SET lock_timeout = '30s'; DELETE FROM streamhouse_internal.topics")
    assert not migrating.done()
    await reader.execute("ROLLBACK")
    assert await migrating == [STOPPING.name]
    await reader.close()
    await other.close()


async def test_a_migration_ends_with_the_broker_that_was_killed_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a broker in the middle of a migration that takes long, with tables that others need
    dsn, server = await create_database(), postgres_server()
    database: Connection = await asyncpg.connect(dsn)
    with short_directory() as home:
        behind = dsn.replace(f"host={server.directory}", f"host={home}")
        async with LossyProxy.between(home, server.directory) as proxy:
            migrating = asyncio.create_task(migrate_to(SLOW, behind, monkeypatch))

            async def works() -> bool | None:
                found: bool | None = await database.fetchval(
                    "SELECT true FROM pg_stat_activity "
                    "WHERE wait_event = 'PgSleep' AND datname = current_database()"
                )
                return found

            await until(works)

            # When it is killed
            proxy.cut()
            with pytest.raises(MetadataUnavailable):
                await migrating

            # Then the tables are free soon, and nothing is changed
            await database.execute("SET lock_timeout = '30s'")
            await database.execute("SELECT FROM streamhouse_internal.brokers FOR UPDATE")
            assert await missing_migrations(dsn, PostgresConfig()) == []
    await database.close()


async def test_a_migration_ends_with_the_broker_that_stands_still_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a broker that does not go on at the end of a migration
    dsn = await create_database()
    stands = asyncio.Event()

    async def stand_still(connection: Connection) -> list[str]:
        await apply_missing(connection)
        stands.set()
        return await asyncio.Future()

    apply_missing = migrate_module._apply_missing
    with monkeypatch.context() as patched:
        patched.setattr(migrate_module, "_apply_missing", stand_still)
        patched.setattr(migrate_module, "IDLE_IN_TRANSACTION_S", 1.0)
        migrating = asyncio.create_task(migrate_to(NEW_ONLY, dsn, monkeypatch))
        await asyncio.wait(
            [migrating, asyncio.ensure_future(stands.wait())], return_when=asyncio.FIRST_COMPLETED
        )

    # When another one starts, then its turn comes, and nothing is changed before
    async with asyncio.timeout(PATIENCE_S):
        assert await migrate_to(NEW_ONLY, dsn, monkeypatch) == [NEW_ONLY.name]
    migrating.cancel()
    await asyncio.wait([migrating])


async def test_a_migration_takes_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a database whose owner ends what takes long
    dsn = await create_database()
    owner: Connection = await asyncpg.connect(dsn)
    name = await owner.fetchval("SELECT current_database()")
    for limit in ("statement_timeout", "transaction_timeout"):
        await owner.execute(f"ALTER DATABASE {name} SET {limit} = '1s'")
    await owner.close()

    # Then a migration that takes longer is applied all the same
    longer = replace(SLOW, text="SELECT pg_sleep(1.5)")
    assert await migrate_to(longer, dsn, monkeypatch) == [longer.name]


async def test_what_older_versions_left_stops_them() -> None:
    # Given a database that only versions before this rule have seen
    dsn = await create_database()
    connection: Connection = await asyncpg.connect(dsn)
    await connection.execute(
        "ALTER TABLE streamhouse_internal.migrations DROP COLUMN stops_older;"
        "INSERT INTO streamhouse_internal.migrations (name, checksum) VALUES ('0999_other', 'x')"
    )
    await connection.close()

    # When it is looked at, or opened, then what is not known to be harmless is refused
    for ask in (migrate, missing_migrations):
        with pytest.raises(DatabaseNotSupported, match="0999_other"):
            await ask(dsn, PostgresConfig())


def test_a_migration_that_takes_something_away_says_that_it_stops_older_brokers() -> None:
    # Given the migrations since that has to be said
    since = [each for each in migrations() if each.name > BEFORE_THAT_RULE]

    # Then none of them takes away what an older version may use, and says nothing
    takes_away = re.compile(
        r"^\s*(DROP|ALTER TABLE[^;]*\b(DROP|RENAME|TYPE|SET NOT NULL)\b)", re.MULTILINE
    )
    assert takes_away.search(STOPPING.text)
    for migration in since:
        assert migration.stops_older == migration.text.startswith(STOPS_OLDER)
        assert migration.stops_older or not takes_away.search(migration.text), migration.name


async def in_place_of_the_owner(dsn: str, statement: str) -> str:
    """Return the address for a role that owns nothing; `statement` is run before, by who does."""
    connection: Connection = await asyncpg.connect(dsn)
    role = f"guest of {await connection.fetchval('SELECT current_database()')}"
    await connection.execute(f'CREATE ROLE "{role}" LOGIN; {statement.format(role=role)}')
    await connection.close()
    return dsn.replace("//streamhouse@", f"//{quote(role)}@")


async def test_a_role_that_may_not_create_schemas_is_told_what_it_lacks() -> None:
    # Given an empty database, and a role that may only connect to it
    dsn = await in_place_of_the_owner(await create_empty_database(), "")

    # When it migrates, then the answer is the statement that mends it
    with pytest.raises(
        PostgresRefused, match=r'GRANT CREATE ON DATABASE (empty_\d+) TO "guest of \1"'
    ):
        await migrate(dsn, PostgresConfig())

    # And looking what there is to do is not refused
    assert len(await missing_migrations(dsn, PostgresConfig())) == len(migrations())


async def test_a_role_that_the_schema_does_not_belong_to_is_told_so() -> None:
    # Given a migrated database, and another role that may create schemas of its own
    database = await create_database()
    grant = f"GRANT CREATE ON DATABASE {urlsplit(database).path[1:]} TO " + '"{role}"'
    dsn = await in_place_of_the_owner(database, grant)

    # When it migrates, or looks what there is to do, then it is told whose the tables are
    for ask in (migrate, missing_migrations):
        with pytest.raises(PostgresRefused, match="belong to the role streamhouse"):
            await ask(dsn, PostgresConfig())


def test_a_migration_that_was_changed_afterwards_is_refused() -> None:
    # Given a database that took a migration with another text
    first = migrations()[0]
    applied = {first.name: Applied("another checksum", stops_older=True)}

    # When what is missing is asked for, then it is refused
    with pytest.raises(DatabaseNotSupported, match=first.name):
        find_missing(applied, migrations())


def test_only_what_is_missing_is_applied() -> None:
    # Given three migrations, the first of which was applied
    known = [
        Migration(name=name, text="", checksum=name * 2, stops_older=True)
        for name in ("1", "2", "3")
    ]

    # Then the others are missing, in order
    assert find_missing({"1": Applied("11", stops_older=True)}, known) == known[1:]
