"""A database that is older than the object store: whoever starts with both is told."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from storage.errors import MetadataWentBack, ObjectUnreadable
from storage.fsck.index_age import check_index_age
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.objects.port import Owned
from storage.wal_index import WalEnding
from tests.storage.stored_log import CONFIG, StoredLog, stored_log
from tests.support.postgres import maintenance, postgres_server

pytestmark = pytest.mark.usefixtures("patience")


@asynccontextmanager
async def backed_up(log: StoredLog) -> AsyncIterator[PostgresMetadata]:
    """Open a copy of the database as it is now."""
    await log.metadata.close()  # nobody may use what is copied
    name = log.dsn.partition("@/")[2].partition("?")[0]
    server = postgres_server()
    async with maintenance(server) as connection:
        await connection.execute(f"CREATE DATABASE {name}_backup TEMPLATE {name}")
    log.metadata = await PostgresMetadata.open(log.dsn, CONFIG)
    backup = await PostgresMetadata.open(server.database(f"{name}_backup"), CONFIG)
    try:
        yield backup
    finally:
        await backup.close()


async def write_more(log: StoredLog) -> None:
    log.tells = True
    for _ in range(3):
        await log.write(b"a", b"b")


async def build(log: StoredLog) -> None:
    """Build what was written, and let the uploads go."""
    await write_more(log)
    await log.build()
    await log.objects.delete([stored.path async for stored in log.objects.list("wal/")])


async def end_transaction(log: StoredLog) -> None:
    """End one behind the record that is there, and tell of it."""
    marker = WalEnding(0, 0, 1, 7, 0, committed=True, timestamp_ms=1000)
    end = "UPDATE streamhouse_internal.partitions SET high_watermark = 2 WHERE partition = 0"
    await log.sql(end)
    await log.tell(marker)


@pytest.mark.parametrize(
    ("goes_on", "teller"),
    [(write_more, "wal/"), (build, "topics/"), (end_transaction, "wal/")],
)
async def test_a_backup_is_older_than_what_came_after_it(
    goes_on: Callable[[StoredLog], Awaitable[None]], teller: str
) -> None:
    # Given a backup of the database, after which the log went on
    async with stored_log() as log:
        await log.write(b"x")
        async with backed_up(log) as backup:
            await check_index_age(backup, log.objects)
            await goes_on(log)

            # Then the database is as new as the store, and its backup is not
            await check_index_age(log.metadata, log.objects)
            with pytest.raises(MetadataWentBack, match=f"ends at 1 in it, and {teller}.* tells of"):
                await check_index_age(backup, log.objects)


async def test_what_was_never_answered_does_not_make_a_database_old() -> None:
    # Given uploads that a broker did not commit when it was killed, and what is none of ours
    async with stored_log() as log:
        await write_more(log)
        await log.write(b"x", commit=False)
        await log.write(b"y", b"z", commit=False)
        await log.objects.put("wal/00/not-ours", [b"bytes"])

        # Then nothing is wrong
        await check_index_age(log.metadata, log.objects)


async def test_what_is_not_given_out_does_not_keep_a_broker_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given an upload without a row that is archived
    async with stored_log() as log:
        await log.write(b"x", commit=False)

        async def archived(path: str, _start: int, _length: int) -> Owned:
            raise ObjectUnreadable(path)

        monkeypatch.setattr(log.objects, "get", archived)

        # Then it tells nothing
        await check_index_age(log.metadata, log.objects)
