"""The sweeper: takes objects away that nothing needs, by the state of their own rows only (D5).

An upload that was reserved long ago and never committed is given up (doomed), and so is a live
object that no row of the index names. Bytes of doomed objects go `delete_delay_ms` later, because a
reader may have planned with a row that is gone by now; the object's row goes after its bytes, so a
crash at any moment leaves something that the next sweep finds. No listing is needed for any of it.
What the store does not let go (a legal hold, a bucket's policy) keeps nothing else; it is tried
again much later.
"""

from dataclasses import dataclass
from typing import Final

import structlog

from storage.config import UpkeepConfig
from storage.metadata.segments import SegmentStore
from storage.objects.port import ObjectStore

OBJECTS_PER_DELETE: Final = 1000
"""As many as one DeleteObjects of S3 takes."""

UNNEEDED_PER_SWEEP: Final = 5000
REFUSED_DELAY_MS: Final = 3_600_000

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one sweep has done.

    Attributes:
        abandoned: uploads given up.
        unneeded: live objects doomed because no row names them.
        deleted: objects whose bytes are gone.
        refused: doomed objects that the store does not let go.
    """

    abandoned: int
    unneeded: int
    deleted: int
    refused: int = 0


class Sweeper:
    """One sweep at a time."""

    def __init__(
        self, *, metadata: SegmentStore, objects: ObjectStore, config: UpkeepConfig
    ) -> None:
        self._metadata = metadata
        self._objects = objects
        self._config = config
        self._looked_up_to = 0  # object id: where the walk over live objects goes on

    async def run(self) -> Swept:
        """Give up what is abandoned, look at one page of live objects, delete what is due.

        Raises:
            MetadataUnavailable, ObjectStoreUnavailable: no answer; the next sweep
                goes on.
        """
        abandoned = await self._give_up()
        unneeded = await self._doom_unneeded()
        deleted, refused = await self._delete()
        return Swept(abandoned=abandoned, unneeded=unneeded, deleted=deleted, refused=refused)

    async def _give_up(self) -> int:
        abandoned = 0
        while doomed := await self._metadata.doom_abandoned(
            self._config.abandoned_ms, OBJECTS_PER_DELETE
        ):
            abandoned += doomed
        return abandoned

    async def _doom_unneeded(self) -> int:
        """Look at the next page: such objects are rare, and a walk over all of them is not due."""
        doomed, following = await self._metadata.doom_unneeded(
            self._looked_up_to, self._config.abandoned_ms, UNNEEDED_PER_SWEEP
        )
        self._looked_up_to = following or 0
        return doomed

    async def _delete(self) -> tuple[int, int]:
        deleted = refused = 0
        while paths := await self._metadata.doomed_objects(
            self._config.delete_delay_ms, OBJECTS_PER_DELETE
        ):
            kept = await self._objects.delete(paths)
            await self._metadata.forget_objects([path for path in paths if path not in kept])
            if kept:
                await self._metadata.postpone_objects(list(kept), REFUSED_DELAY_MS)
                path, reason = next(iter(kept.items()))
                log.warning(
                    "objects cannot be deleted", objects=len(kept), path=path, reason=reason
                )
            deleted += len(paths) - len(kept)
            refused += len(kept)
        return deleted, refused
