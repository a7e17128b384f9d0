"""Every statement is text that Postgres understands, and migrations make what it speaks of."""

import asyncio
import re
from urllib.parse import quote, urlsplit

import asyncpg
import pytest

from sql import Migration, migrations, query, query_names
from storage.config import PostgresConfig
from storage.errors import DatabaseNotSupported, PostgresRefused
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres.migrate import find_missing, migrate, missing_migrations
from storage.postgres.postgres_connection import Connection
from tests.contracts.metadata_stores import create_partitions, write
from tests.support.postgres import create_database, create_empty_database

FORGOTTEN_PRODUCERS = "0017_forgotten_producers"


@pytest.fixture
async def postgres_dsn() -> str:
    """Address of a fresh database with the current schema."""
    return await create_database()


async def test_every_statement_can_be_prepared(postgres_dsn: str) -> None:
    # Given a migrated database
    connection: Connection = await asyncpg.connect(postgres_dsn)

    # When each statement is prepared, then Postgres knows everything that it names
    assert query_names()
    for name in query_names():
        await connection.prepare(query(name))
    await connection.close()


def test_every_statement_begins_with_what_it_does() -> None:
    # When the statements are read, then each has a comment on top that names its parameters
    for name in query_names():
        comment, statement = _split(query(name))
        assert comment, name
        for number in range(1, 20):
            if f"${number}" in statement and name != "object_commit":
                assert f"${number}" in comment, f"{name} does not document ${number}"


def test_a_statement_that_calls_a_function_says_where_the_one_in_force_is() -> None:
    # Given which migration was the last to define each function
    newest = {
        name: migration.name
        for migration in migrations()
        for name in re.findall(r"CREATE (?:OR REPLACE )?FUNCTION ([\w.]+)", migration.text)
    }

    # Then it is the one that each statement sends its reader to, and there are no other pointers
    for name in query_names():
        called = re.findall(r"(streamhouse_internal\.\w+)\(", query(name))
        expected = [f"{newest[function]}.sql" for function in called]
        assert re.findall(r"migrations/(\S*)", query(name)) == expected, name


async def test_statements_reach_rows_by_key(postgres_dsn: str) -> None:
    """A session keeps its plans: one made on an empty table must do for a full one.

    The planner is asked at its worst moment: tables that it has just counted as all but empty.
    """
    # Given a database whose tables were analyzed with one topic of one partition in them
    store = await PostgresMetadata.open(postgres_dsn)
    await store.create_topic("t", partition_count=1, replication_factor=1, configs={})
    connection: Connection = await asyncpg.connect(postgres_dsn)
    await connection.execute("VACUUM ANALYZE")

    # When the statements of the hot path are planned as a broker's session does it
    async with store._pool._connection() as configured:
        for name in ("partition_find_offsets", "segment_find", "segment_find_timestamp"):
            statement = await configured.prepare(query(name))
            arguments = ", ".join(["NULL"] * len(statement.get_parameters()))
            types = ", ".join(str(kind.name) for kind in statement.get_parameters())
            await configured.execute(f"PREPARE s ({types}) AS {query(name)}")
            rows = await configured.fetch(f"EXPLAIN EXECUTE s ({arguments})")
            plan = "\n".join(row[0] for row in rows)
            await configured.execute("DEALLOCATE s")

            # Then no table is read but by key
            assert "Seq Scan" not in plan, plan
            assert "Join Filter" not in plan, plan
            for line, following in zip(plan.splitlines(), plan.splitlines()[1:], strict=False):
                if "Index Scan" in line:
                    assert "Index Cond" in following, plan
    await connection.close()
    await store.close()


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


async def test_a_database_of_newer_code_is_refused() -> None:
    # Given a database in which a later version left its mark
    dsn = await create_database()
    connection: Connection = await asyncpg.connect(dsn)
    await connection.execute(
        "INSERT INTO streamhouse_internal.migrations (name, checksum) VALUES ('9999_future', 'x')"
    )
    await connection.close()

    # When this version opens it, then it refuses, and says why
    with pytest.raises(DatabaseNotSupported, match=r"newer.*9999_future"):
        await PostgresMetadata.open(dsn)


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
    applied = {first.name: "another checksum"}

    # When what is missing is asked for, then it is refused
    with pytest.raises(DatabaseNotSupported, match=first.name):
        find_missing(applied, migrations())


def test_only_what_is_missing_is_applied() -> None:
    # Given three migrations, the first of which was applied
    known = [Migration(name=name, text="", checksum=name * 2) for name in ("1", "2", "3")]

    # Then the others are missing, in order
    assert find_missing({"1": "11"}, known) == known[1:]


async def test_what_producers_wrote_before_an_upgrade_may_be_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a database from before it was written down what partitions forget of producers
    dsn = await create_empty_database()
    older = [each for each in migrations() if each.name < FORGOTTEN_PRODUCERS]
    with monkeypatch.context() as patched:
        patched.setattr("storage.postgres.migrate.migrations", lambda: older)
        store = await PostgresMetadata.open(dsn)
    (known,) = await create_partitions(store, 1, name="known")
    (gone,) = await create_partitions(store, 1, name="gone")
    assert await store.allocate_producer_ids(1000) == 0
    await store.delete_topic(gone.topic_id)
    await store.close()

    # When it is brought up to date
    assert FORGOTTEN_PRODUCERS in await migrate(dsn, PostgresConfig())

    # Then a producer of that time may go on in what is there, and in what is made again
    store = await PostgresMetadata.open(dsn)
    new = await store.allocate_producer_ids(1)
    assert new > 999
    for partition in (known, *await create_partitions(store, 1, name="gone")):
        assert await write(store, partition, producer=999, epoch=0, sequence=7) == 0
        assert await write(store, partition, new, 0, 7) == "OutOfOrderSequence"
    await store.close()


async def test_clusters_give_out_ids_that_are_far_apart() -> None:
    # Given two clusters, and a producer of one of them
    stores = [await PostgresMetadata.open(await create_empty_database()) for _ in range(2)]
    ids = [await store.allocate_producer_ids(1) for store in stores]
    assert abs(ids[0] - ids[1]) >= 2**32
    assert all(2**32 <= one < 2**52 for one in ids)

    # When it is led to the other one, which has given out ids as well, then it may go on there
    for store, foreign in zip(stores, reversed(ids), strict=True):
        (partition,) = await create_partitions(store, 1)
        assert await write(store, partition, foreign, 0, 7) == 0
        await store.close()


async def test_people_see_the_log_in_views(postgres_dsn: str) -> None:
    # Given a topic
    store = await PostgresMetadata.open(postgres_dsn)
    await store.create_topic("orders", partition_count=2, replication_factor=1, configs={"a": "b"})
    await store.close()

    # When it is looked up in the public schema, then it is there
    connection: Connection = await asyncpg.connect(postgres_dsn)
    topics = await connection.fetch("SELECT name, partition_count FROM streamhouse.topics")
    assert [tuple(row) for row in topics] == [("orders", 2)]
    partitions = await connection.fetch(
        "SELECT topic, partition, high_watermark FROM streamhouse.partitions ORDER BY partition"
    )
    assert [tuple(row) for row in partitions] == [("orders", 0, 0), ("orders", 1, 0)]
    assert await connection.fetch("SELECT * FROM streamhouse.segments") == []
    await connection.close()


def _split(text: str) -> tuple[str, str]:
    lines = text.splitlines()
    comments = [line for line in lines if line.startswith("--")]
    return "\n".join(comments), "\n".join(line for line in lines if not line.startswith("--"))
