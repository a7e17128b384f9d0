"""Who keeps dead rows of the database from being removed, as operators are told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from sql import query
from storage.metadata.oldest_xmin import OldestXmin
from storage.postgres.postgres_connection import Connection
from tests.storage.postgres_commits import connected
from tests.support.postgres import create_database, maintenance, postgres_server, until

pytestmark = pytest.mark.usefixtures("patience")

SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pg_class LIMIT 1"
WRITE = "BEGIN; CREATE TABLE written (id int)"


@asynccontextmanager
async def session(dsn: str, name: str) -> AsyncIterator[Connection]:
    connection: Connection = await asyncpg.connect(dsn, server_settings={"application_name": name})
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("begin", [SNAPSHOT, WRITE])
async def test_a_session_that_keeps_rows_is_told_until_it_ends(begin: str) -> None:
    # Given a session that has a snapshot, or has written, and a later one in another database
    dsn = await create_database()
    async with connected(dsn) as store, session(dsn, "a backup") as backup:
        await backup.execute(begin)
        async with session(postgres_server().dsn, "elsewhere") as other:
            await other.execute(SNAPSHOT)

            async def of_the_backup() -> OldestXmin | None:
                oldest = await store.oldest_xmin()
                return oldest if oldest and oldest.application == "a backup" else None

            # When more and more transactions are begun
            first = await until(of_the_backup)
            for _ in range(3):
                await store.allocate_producer_ids(1)
            last = await until(of_the_backup)

            # Then it is the oldest, and gets older
            assert first.seconds is not None
            assert last.seconds is not None
            assert 0 <= first.seconds < last.seconds
            assert last.transactions >= first.transactions + 3
            assert (last.kind, last.pid) == ("session", backup.get_server_pid())

            # And when it ends, nobody is: none but those of this database count
            await backup.execute("ROLLBACK")

            async def nobody() -> bool:  # but for what Postgres does by itself
                return await store.oldest_xmin() is None

            await until(nobody)


async def test_a_role_that_may_not_know_it_is_told_no_age() -> None:
    # Given a session of another role than the one that asks
    dsn = await create_database()
    async with maintenance(postgres_server()) as connection:
        await connection.execute("DROP ROLE IF EXISTS may_not_know; CREATE ROLE may_not_know")
    async with session(dsn, "a backup") as backup, session(dsn, "a broker") as broker:
        await backup.execute(SNAPSHOT)
        await broker.execute("SET ROLE may_not_know")

        # When it asks, then it is told who it is, and how many transactions were begun since
        async def of_the_backup() -> OldestXmin | None:
            row = await broker.fetchrow(query("oldest_xmin"))
            oldest = OldestXmin(**row) if row else None
            return oldest if oldest and oldest.pid == backup.get_server_pid() else None

        oldest = await until(of_the_backup)
        assert (oldest.kind, oldest.application) == ("session", "a backup")
        assert oldest.seconds is None
        assert oldest.transactions >= 0
