"""What a process of the broker stands on: Postgres and the object store that belongs to it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Final

import structlog

from broker.start_patience import StartPatience
from storage.config import PostgresConfig
from storage.errors import ObjectConflict, WrongStore
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import MetadataStore
from storage.objects.open_store import open_store, store_name
from storage.objects.port import ObjectStore
from storage.objects.store_marker import MARKER, new_mark, read_marker
from storage.objects.store_traffic import StoreTraffic
from storage.postgres.postgres_dsn import database_name

SLOW_STORE_S: Final = 1.0

log = structlog.get_logger()


async def claim_store(
    metadata: MetadataStore, objects: ObjectStore, *, store: str, database: str
) -> None:
    """Make sure that the object store is the cluster's; a new cluster leaves its mark there.

    Brokers of a new cluster may do it at the same time, and may be cut off anywhere: the first mark
    that the database hears of is the cluster's. A mark that is there is never written over, also
    where the server knows no conditional PUT.

    Args:
        metadata: knows which store is the cluster's, if it has one.
        objects: the store.
        store: what operators call it.
        database: what operators call the database.

    Raises:
        WrongStore: it is another cluster's, whose records our sweeper would delete, or this one has
            another store, where the other brokers look for what is acknowledged here.
    """
    cluster_id, store_id = await metadata.cluster_id(), await metadata.store_id()
    mark = await read_marker(objects)
    if mark is None and store_id is None:
        with suppress(ObjectConflict):  # another broker was first
            await objects.put(MARKER, [new_mark(cluster_id).content()])
        mark = await read_marker(objects)
    if mark is None:
        raise WrongStore(
            f"the object store {store} has no mark ({MARKER}) of a cluster, and that of {database} "
            f"({cluster_id}) has a store: give --store as the other brokers have it, or, for a new "
            "cluster, a new database with --postgres"
        )
    if mark.cluster_id != cluster_id:
        raise WrongStore(
            f"the object store {store} belongs to another cluster ({mark.cluster_id}) than "
            f"{database} ({cluster_id}): use another --store, or the --postgres that it was made "
            "with; if that is lost, see streamctl recover"
        )
    if mark.store_id != (store_id or await metadata.claim_store(mark.store_id)):
        raise WrongStore(
            f"the object store {store} was marked for the cluster of {database} ({cluster_id}), "
            "which took another one: give --store as the other brokers have it"
        )


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
        database = database_name(dsn)
        patience = StartPatience(database)
        metadata = await patience.ask(partial(PostgresMetadata.open, dsn, pool))
        stack.push_async_callback(metadata.close)
        store = store_name(store_url)
        with _telling_of(store):
            objects = await open_store(store_url, traffic, reads_once=reads_once)
            stack.push_async_callback(objects.close)
            await patience.ask(
                lambda: claim_store(metadata, objects, store=store, database=database)
            )
        yield metadata, objects


@contextmanager
def _telling_of(store: str) -> Iterator[None]:
    """Log that the object store is waited for, once it has not answered for a while."""

    def tell() -> None:
        log.warning("waiting for the object store", store=store, set_by="--store")

    timer = asyncio.get_running_loop().call_later(SLOW_STORE_S, tell)
    try:
        yield
    finally:
        timer.cancel()
