"""A built segment on its way into the log: reserve a path, upload, swap rows (D5, D6).

What may fail at each await, and what then holds:
- a crash anywhere before the swap: the log is as it was; a pending row, and perhaps an object, are
  left for the sweeper. After it: the segment is in the log.
- put, or the swap, without an answer: both are idempotent and called again, for GIVE_UP_S.
- the rows have changed meanwhile: nothing happens, and the path is doomed.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import structlog

from protocol.ids import Partition
from storage.backoff import Backoff
from storage.errors import MetadataUnavailable, ObjectConflict, ObjectStoreUnavailable
from storage.metadata.segments import SegmentStore, SegmentSwap
from storage.objects.port import ObjectStore
from storage.segment_encoder import BuiltSegment
from storage.segment_entry import SegmentEntry

GIVE_UP_S: Final = 180.0

T = TypeVar("T")

log = structlog.get_logger()


class SegmentSwapper:
    """Puts built segments in the place of rows."""

    def __init__(
        self, metadata: SegmentStore, objects: ObjectStore, clock: Callable[[], float]
    ) -> None:
        self._metadata = metadata
        self._objects = objects
        self._clock = clock

    async def swap(
        self,
        partition: Partition,
        built: BuiltSegment,
        replaced: Sequence[SegmentEntry],
        *,
        compacts: bool = False,
    ) -> str | None:
        """Store a segment, and let it take the place of rows.

        Args:
            partition: of the rows.
            built: covers the offsets of `replaced`.
            replaced: the rows, as they were read: adjacent, in offset order.
            compacts: it has not all records of the rows.

        Returns:
            the path of its object; None if the partition is gone or the rows have changed.

        Raises:
            ObjectStoreUnavailable: the log is as it was.
            MetadataUnavailable: it may have happened, or happen yet.
        """
        deadline_s = self._clock() + GIVE_UP_S
        path = await self._upload(partition, built, deadline_s)
        if path is None:
            return None
        swap = SegmentSwap(
            partition=partition,
            path=path,
            size=built.size,
            replaced=replaced,
            start=built.start,
            length=built.length,
            index_length=built.index_length,
            max_timestamp_ms=built.max_timestamp_ms,
            compacts=compacts,
        )
        done = await self._insist(partial(self._metadata.replace_segments, swap), deadline_s)
        return path if done else None

    async def _upload(
        self, partition: Partition, built: BuiltSegment, deadline_s: float
    ) -> str | None:
        index = built.index
        while True:
            path = await self._metadata.reserve_segment(
                partition, index.start_offset, index.end_offset
            )
            if path is None:
                return None
            try:
                await self._insist(partial(self._objects.put, path, built.parts), deadline_s)
            except ObjectConflict as error:
                log.warning("building under another path", path=path, reason=str(error))
                if self._clock() > deadline_s:
                    raise ObjectStoreUnavailable(f"no free path: {error}") from error
            else:
                return path

    async def _insist(self, call: Callable[[], Awaitable[T]], deadline_s: float) -> T:
        """Repeat a call that may be repeated until it answers, or the time is over."""
        backoff = Backoff()
        while True:
            try:
                return await call()
            except (ObjectStoreUnavailable, MetadataUnavailable) as error:
                if self._clock() > deadline_s:
                    raise
                log.warning("trying again", reason=str(error))
                await backoff.wait()
