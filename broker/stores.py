"""What a process of the broker stands on: Postgres and the object store that belongs to it."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import structlog

from storage.backoff import Backoff
from storage.config import PostgresConfig
from storage.errors import (
    MetadataUnavailable,
    ObjectConflict,
    PostgresNotTrusted,
    WrongStore,
)
from storage.metadata import MetadataStore
from storage.metadata_postgres import PostgresMetadata
from storage.objects import ObjectStore
from storage.open_store import open_store
from storage.store_marker import MARKER, marker_of
from storage.store_traffic import StoreTraffic

POSTGRES_START_S: Final = 60

log = structlog.get_logger()


async def claim_store(objects: ObjectStore, cluster_id: str) -> None:
    """Leave this cluster's mark in the object store, or find it there.

    Raises:
        WrongStore: another cluster's records are kept there: its sweeper would delete ours.
    """
    try:
        await objects.put(MARKER, [marker_of(cluster_id)])
    except ObjectConflict as error:
        raise WrongStore(
            f"the object store belongs to another cluster than the database ({cluster_id}); "
            "use another --store, or the --postgres that it was made with"
        ) from error


@asynccontextmanager
async def open_stores(
    dsn: str,
    pool: PostgresConfig,
    store_url: str,
    traffic: StoreTraffic | None = None,
    *,
    reads_once: bool = False,
) -> AsyncIterator[tuple[MetadataStore, ObjectStore]]:
    """Open both, and close them in reverse.

    Args:
        dsn: of Postgres.
        pool: how it is reached.
        store_url: of the object store.
        traffic: as `open_store`.
        reads_once: as `open_store`.

    Raises:
        StorageError: one of them cannot be used.
        ValueError: as `open_store`.
    """
    async with AsyncExitStack() as stack:
        metadata = await _open_metadata(dsn, pool)
        stack.push_async_callback(metadata.close)
        objects = await open_store(store_url, traffic, reads_once=reads_once)
        stack.push_async_callback(objects.close)
        await claim_store(objects, await metadata.cluster_id())
        yield metadata, objects


async def _open_metadata(dsn: str, pool: PostgresConfig) -> MetadataStore:
    """Connect; a Postgres that starts at the same time as the broker is waited for."""
    backoff = Backoff(most_s=5.0)
    deadline_s = time.monotonic() + POSTGRES_START_S
    while True:
        try:
            return await PostgresMetadata.open(dsn, pool)
        except PostgresNotTrusted:  # waiting mends no certificate
            raise
        except MetadataUnavailable as error:
            if time.monotonic() > deadline_s:
                raise
            log.warning("waiting for postgres", reason=str(error))
            await backoff.wait()
