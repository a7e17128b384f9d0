"""Which object store a cluster takes for its own, whenever a start is cut off."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

import asyncpg
import pytest
from structlog.testing import capture_logs

from broker.stores import claim_store, open_stores
from sql import migrations, query
from storage.config import PostgresConfig
from storage.errors import WrongStore
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import MetadataStore
from storage.objects.port import Buffer, ObjectStore
from storage.objects.store_marker import MARKER, new_mark, read_marker
from storage.postgres.postgres_connection import Connection
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore
from tests.support.ports import free_port
from tests.support.postgres import create_empty_database, until


def new_cluster() -> MetadataStore:
    return MemoryMetadata(Random(1))


async def claim(metadata: MetadataStore, objects: ObjectStore) -> None:
    await claim_store(metadata, objects, store="s3://b/log", database="database d at h:5432")


async def old_mark(metadata: MetadataStore) -> bytes:
    """Return a mark from before stores had ids."""
    return b'{"cluster_id": "%s"}\n' % (await metadata.cluster_id()).encode()


async def test_the_first_broker_marks_the_store_and_the_next_ones_find_it() -> None:
    metadata, objects = new_cluster(), MemoryStore()
    for _ in range(2):
        await claim(metadata, objects)
    mark = await read_marker(objects)
    assert mark is not None
    assert mark.cluster_id == await metadata.cluster_id()
    assert mark.store_id == await metadata.store_id()


async def test_a_cluster_that_has_a_store_leaves_no_mark_in_an_empty_one() -> None:
    # Given a cluster with a store
    metadata, empty = new_cluster(), MemoryStore()
    await claim(metadata, MemoryStore())

    # When a broker is sent to an empty one
    # Then it refuses, names both, and leaves nothing there
    with pytest.raises(WrongStore, match=r"s3://b/log has no mark.*database d at h:5432.*--store"):
        await claim(metadata, empty)
    assert await read_marker(empty) is None


async def test_brokers_that_start_at_once_agree_on_the_mark() -> None:
    metadata, objects = new_cluster(), MemoryStore()
    await asyncio.gather(*(claim(metadata, objects) for _ in range(5)))
    await claim(metadata, objects)


async def test_of_two_stores_that_are_marked_at_once_one_is_the_clusters() -> None:
    # Given a new cluster, two of whose brokers are sent to different stores
    metadata, stores = new_cluster(), (MemoryStore(), MemoryStore())

    # When they start at once
    starts = [claim(metadata, objects) for objects in stores]
    outcomes = await asyncio.gather(*starts, return_exceptions=True)

    # Then one of them serves, and the other store stays refused
    (refused,) = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, WrongStore)]
    await claim(metadata, stores[1 - refused])
    with pytest.raises(WrongStore):
        await claim(metadata, stores[refused])


async def test_a_start_that_was_cut_off_after_the_mark_goes_on() -> None:
    # Given a mark that the database has not heard of
    metadata, objects = new_cluster(), MemoryStore()
    await objects.put(MARKER, [new_mark(await metadata.cluster_id()).content()])

    # When the broker is started again, then its store is the cluster's
    await claim(metadata, objects)
    with pytest.raises(WrongStore):
        await claim(metadata, MemoryStore())


async def test_a_store_that_was_marked_before_stores_had_ids_is_taken() -> None:
    metadata, objects = new_cluster(), MemoryStore()
    await objects.put(MARKER, [await old_mark(metadata)])
    for _ in range(2):
        await claim(metadata, objects)
    with pytest.raises(WrongStore):
        await claim(metadata, MemoryStore())


class OverwritingStore(MemoryStore):
    """Knows no conditional PUT, as some servers that speak S3: what comes last is stored."""

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        await self.delete([path])
        await super().put(path, parts)


@pytest.mark.parametrize("kind", [MemoryStore, OverwritingStore])
async def test_the_store_of_another_cluster_is_refused(kind: type[MemoryStore]) -> None:
    # Given a store that belongs to a cluster
    mine, objects = MemoryMetadata(Random(2)), kind()
    await claim(mine, objects)

    # When a new cluster is sent there, then it refuses, and the store stays what it was
    with pytest.raises(WrongStore, match="belongs to another cluster"):
        await claim(new_cluster(), objects)
    await claim(mine, objects)


RECORD_OF_AN_OLDER_VERSION: Final = (
    "INSERT INTO streamhouse_internal.migrations (name, checksum) VALUES ($1, $2)"
)


async def database_of_an_older_version(*, with_records: bool) -> str:
    dsn = await create_empty_database()
    connection: Connection = await asyncpg.connect(dsn)
    for statement in ("migration_create_schema", "migration_create_table"):
        await connection.execute(query(statement))
    for one in migrations():
        if one.name < "0022":
            await connection.execute(one.text)
            await connection.execute(RECORD_OF_AN_OLDER_VERSION, one.name, one.checksum)
    if with_records:
        await connection.execute("INSERT INTO streamhouse_internal.objects (path) VALUES ('wal/0')")
    await connection.close()
    return dsn


@pytest.mark.parametrize("with_records", [True, False])
async def test_a_cluster_of_an_older_version_has_its_store(with_records: bool) -> None:
    # Given a database that an older version has used, with its store
    metadata = await PostgresMetadata.open(
        await database_of_an_older_version(with_records=with_records)
    )
    objects = MemoryStore()
    await objects.put(MARKER, [await old_mark(metadata)])

    # When this version's first broker is sent to an empty store
    # Then it refuses if there are records somewhere else
    if with_records:
        with pytest.raises(WrongStore):
            await claim(metadata, MemoryStore())

    # And in any case it takes the right one, and no other after that
    await claim(metadata, objects)
    with pytest.raises(WrongStore):
        await claim(metadata, MemoryStore())
    await metadata.close()


async def test_a_store_that_does_not_answer_is_waited_for_aloud(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a store whose address nobody listens on
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setattr("broker.stores.SLOW_STORE_S", 0.2)
    dsn = await create_empty_database()
    url = f"s3://bucket/log?endpoint=http://127.0.0.1:{free_port()}&region=r"

    # When a broker opens it
    async def start() -> None:
        async with open_stores(dsn, PostgresConfig(pool_size=2), url):
            pass

    with capture_logs() as lines:
        starting = asyncio.create_task(start())

        async def probe() -> str | None:
            told = [one["store"] for one in lines if one["event"] == "waiting for the object store"]
            return told[0] if told else None

        # Then it says so soon
        assert await until(probe) == "s3://bucket/log"
        starting.cancel()
        await asyncio.wait([starting])
