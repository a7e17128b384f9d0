"""Stores of metadata on Postgres whose commits are held up, or have to be repeated."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from protocol.ids import Partition
from storage.config import PostgresConfig
from storage.errors import MetadataUnavailable
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import BatchCommit, BatchOutcome
from storage.postgres.postgres_connection import Connection
from tests.support.patience import PATIENT
from tests.support.postgres import until


@asynccontextmanager
async def connected(dsn: str, config: PostgresConfig = PATIENT) -> AsyncIterator[PostgresMetadata]:
    store = await PostgresMetadata.open(dsn, config)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def locked(dsn: str, partition: Partition) -> AsyncIterator[Connection]:
    """Hold the lock of a partition's row, as a slow commit would."""
    connection: Connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(
                "SELECT FROM streamhouse_internal.partitions "
                "WHERE topic_id = $1 AND partition = $2 FOR UPDATE",
                *partition,
            )
            yield connection
    finally:
        await connection.close()


async def retried(
    store: PostgresMetadata, path: str, batches: Sequence[BatchCommit]
) -> list[BatchOutcome]:
    """Do what the writer does: repeat the same call until there is an answer."""

    async def probe() -> list[BatchOutcome] | None:
        try:
            return await store.commit_object(path, 100, batches)
        except MetadataUnavailable:
            return None

    return await until(probe)
