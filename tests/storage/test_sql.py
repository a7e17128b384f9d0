"""Every statement is text that Postgres understands, and migrations make what it speaks of."""

import re
from pathlib import Path

import asyncpg
import pytest

import sql
from sql import migrations, query, query_names
from storage.config import PostgresConfig
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres.migrate import migrate
from storage.postgres.postgres_connection import Connection
from tests.contracts.metadata_stores import create_partitions, write
from tests.support.postgres import create_database, create_empty_database

FORGOTTEN_PRODUCERS = "0017_forgotten_producers"
FOREIGN_PRODUCERS = "0027_ids_and_judges"


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


async def test_a_process_goes_on_with_its_statements_while_another_version_is_installed(
    postgres_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a process that has just begun
    texts = {name: query(name) for name in query_names()}
    query.cache_clear()
    store = await PostgresMetadata.open(postgres_dsn)

    # When its files are gone, then it has what it has not used yet, too
    monkeypatch.setattr(sql, "_FILES", tmp_path)
    assert {name: query(name) for name in texts} == texts
    await store.close()


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
        for name in (
            "partition_find_offsets",
            "partition_find_changed",
            "segment_find",
            "segment_find_timestamp",
        ):
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


async def open_as_before(
    migration: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> PostgresMetadata:
    """Return the store of an empty database that lacks a migration, and all after it."""
    older = [each for each in migrations() if each.name < migration]
    with monkeypatch.context() as patched:
        patched.setattr("storage.postgres.migrate.migrations", lambda: older)
        return await PostgresMetadata.open(dsn)


async def test_what_producers_wrote_before_an_upgrade_may_be_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a database from before it was written down what partitions forget of producers
    dsn = await create_empty_database()
    store = await open_as_before(FORGOTTEN_PRODUCERS, dsn, monkeypatch)
    (known,) = await create_partitions(store, 1, name="known")
    (gone,) = await create_partitions(store, 1, name="gone")
    connection: Connection = await asyncpg.connect(dsn)
    await connection.execute("UPDATE streamhouse_internal.cluster SET next_producer_id = 1000")
    await connection.close()
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


async def test_what_partitions_forgot_of_other_clusters_is_made_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a database of old, where a partition has forgotten an id that is not reached here
    dsn = await create_empty_database()
    store = await open_as_before(FOREIGN_PRODUCERS, dsn, monkeypatch)
    (partition,) = await create_partitions(store, 1)
    connection: Connection = await asyncpg.connect(dsn)
    await connection.execute(
        "UPDATE streamhouse_internal.partitions SET forgotten_producer_id = 1::bigint << 60"
    )
    await connection.close()

    # When it is brought up to date, then who comes later begins with its first batch there
    assert FOREIGN_PRODUCERS in await migrate(dsn, PostgresConfig())
    later = await store.allocate_producer_ids(1)
    assert await write(store, partition, later, 0, 5) == "OutOfOrderSequence"
    assert await write(store, partition, later - 1, 0, 5) == 0
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
