"""What is set for a role or database does not end who reads a store while its session waits."""

import asyncio
from uuid import uuid4

import asyncpg

from storage.fsck.fsck_index import FsckIndex
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.objects.store_marker import new_mark
from storage.postgres.postgres_connection import Connection
from storage.recovery.recover_postgres import EmptyDatabase
from tests.storage.stored_log import CONFIG, stored_log
from tests.support.postgres import create_database

READING_S = 1.3


async def end_what_takes_long(dsn: str) -> None:
    """Let sessions of a database that are made from now on end after a second."""
    owner: Connection = await asyncpg.connect(dsn)
    name = await owner.fetchval("SELECT current_database()")
    for limit in (
        "statement_timeout",
        "transaction_timeout",
        "idle_in_transaction_session_timeout",
        "idle_session_timeout",
    ):
        await owner.execute(f"ALTER DATABASE {name} SET {limit} = '1s'")
    await owner.close()


async def test_an_index_is_recovered_from_a_store_that_takes_long_to_read() -> None:
    # Given a database whose owner ends what takes long
    dsn, mark = await create_database(), new_mark(str(uuid4()))
    await end_what_takes_long(dsn)

    # When an index is recovered into it, for which a store is read for longer
    async with EmptyDatabase.open(dsn, CONFIG, keep=True) as database:
        await database.add_objects([("wal/0001/object", 100)])
        await asyncio.sleep(READING_S)
        await database.set_cluster(mark, next_producer_id=1, generation=1)

    # Then all of it is there
    store = await PostgresMetadata.open(dsn, CONFIG)
    assert await store.cluster_id() == mark.cluster_id
    await store.close()


async def test_an_index_is_checked_beside_a_store_that_takes_long_to_read() -> None:
    # Given a log in a database whose owner ends what takes long
    async with stored_log() as log:
        await log.write(b"a")
        await end_what_takes_long(log.dsn)

        # When what rows name is read for longer, of a partition and between two
        async with FsckIndex.open(log.dsn, CONFIG) as index:
            async with index.snapshot(log.partition()) as found:
                assert found is not None
                _, rows = found
                await asyncio.sleep(READING_S)
                extents = [(row.start_offset, row.end_offset) async for row in rows]
            await asyncio.sleep(READING_S)
            partitions = [partition async for partition in index.partitions()]

    # Then the index has told all of it
    assert extents == [(0, 0)]
    assert partitions == [log.partition(0), log.partition(1)]
