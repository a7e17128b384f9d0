"""An object becomes durable by one PUT, and part of the log by one commit; both are tried again.

What may fail at each await, and what then holds:
- put: the object is not in the log, whatever the store has. It is tried again until shutdown.
- commit: unknown. The same call is repeated until it answers; it is idempotent on the path.
- a crash anywhere: nothing was acknowledged; a pending row, and perhaps an object, are left over.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

import structlog

from storage.backoff import Backoff
from storage.errors import (
    CommitOutcomeUnknown,
    MetadataUnavailable,
    ObjectConflict,
    ObjectStoreUnavailable,
    StorageError,
)
from storage.metadata.port import BatchOutcome, MetadataStore
from storage.metrics import StorageMetrics
from storage.objects.object_paths import ReservedPaths
from storage.objects.port import ObjectStore
from storage.pending_object import PendingObject, Seal
from storage.usage_counter import producing

_SMOOTHING: Final = 0.2

log = structlog.get_logger()


class DurableObjects:
    """Makes objects durable for a writer, several at a time.

    Args:
        clock: monotonic seconds.
        name_of: returns the name of a topic.

    Attributes:
        put_s: what a PUT takes at present.
    """

    def __init__(
        self,
        *,
        objects: ObjectStore,
        metadata: MetadataStore,
        paths: ReservedPaths,
        metrics: StorageMetrics,
        clock: Callable[[], float],
        name_of: Callable[[UUID], str],
    ) -> None:
        self.put_s = 0.0
        self._objects = objects
        self._metadata = metadata
        self._paths = paths
        self._metrics = metrics
        self._clock = clock
        self._name_of = name_of

    async def upload(self, pending: PendingObject, seal: Seal) -> None:
        """Put an object into the store, however long that takes."""
        parts = pending.lay_out(seal, self._name_of)
        shares = pending.shares()
        backoff: Backoff | None = None
        while True:
            pending.path = await self._paths.take()
            began = self._clock()
            try:
                with producing(shares):
                    await self._objects.put(pending.path, parts)
            except (ObjectStoreUnavailable, ObjectConflict) as error:
                # The path is given up: were the lost try to arrive late, no row would name it.
                self._metrics.put_failures.inc()
                log.warning("uploading again", path=pending.path, reason=str(error))
                backoff = backoff or Backoff()
                await backoff.wait()
                continue
            took_s = self._clock() - began
            self.put_s += (took_s - self.put_s) * _SMOOTHING
            self._metrics.put_seconds.observe(took_s)
            if not pending.uploaded.done():  # `run` was cancelled while it waited for this
                pending.uploaded.set_result(None)
            return

    async def commit(self, pending: PendingObject) -> list[BatchOutcome] | StorageError:
        """Make an object that was uploaded part of the log.

        Returns:
            what became of each of its commits; an error if that cannot be known.
        """
        backoff: Backoff | None = None
        while True:
            try:
                return await self._metadata.commit_object(
                    pending.path, pending.object_size, pending.commits
                )
            except MetadataUnavailable as error:
                self._metrics.commit_failures.inc()
                log.warning("committing again", path=pending.path, reason=str(error))
                backoff = backoff or Backoff()
                await backoff.wait()
            except CommitOutcomeUnknown as error:
                log.warning("object cannot be committed", path=pending.path, reason=str(error))
                return error
