"""A task that is claimed for as long as it is worked on.

The lease is short and renewed, so that a task whose worker is gone is soon taken by another,
however long the work takes. It saves double work, and is no fence: `replace_segments` is.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from protocol.ids import Partition
from storage.errors import MetadataUnavailable
from storage.metadata.tasks import TaskKind, TaskStore

LEASE_MS: Final = 15_000

log = structlog.get_logger()


@asynccontextmanager
async def claimed(store: TaskStore, kind: TaskKind) -> AsyncIterator[Partition | None]:
    """Claim a task for the length of a block; finish it unless the block raises.

    Yields:
        what to work on; None if there is no task.

    Raises:
        MetadataUnavailable: no answer; the task waits for its lease to be over.
    """
    partition = await store.claim_task(kind, LEASE_MS)
    if partition is None:
        yield None
        return
    renewal = asyncio.create_task(_renew(store, kind, partition))
    try:
        yield partition
    finally:
        renewal.cancel()
        await asyncio.wait([renewal])
        if not renewal.cancelled():
            renewal.result()  # raises: nothing but a bug ends it
    await store.finish_task(kind, partition)


async def _renew(store: TaskStore, kind: TaskKind, partition: Partition) -> None:
    while True:
        await asyncio.sleep(LEASE_MS / 3 / 1000)
        try:
            await store.renew_task(kind, partition, LEASE_MS)
        except MetadataUnavailable as error:  # the next time, or another broker has it, too
            log.warning("lease not renewed", task=kind.value, reason=str(error))
