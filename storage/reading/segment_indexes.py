"""Indexes of built segments that were read lately: one GET each, one for all who wait for it."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from storage.config import MiB
from storage.errors import CorruptObject, ObjectStoreUnavailable
from storage.reading.cold_gets import ColdGets
from storage.reading.cold_patience import NOT_IN_TIME, now_s, wait_until
from storage.reading.read_plan import Piece, pieces_of_segment
from storage.segment import parse_index
from storage.segment_entry import SegmentEntry
from storage.segment_index import SegmentIndex

INDEXES_BYTES: Final = 8 * MiB
_EXPANSION: Final = 12  # what Python makes of a byte

Read = tuple[SegmentIndex, Sequence[Piece]]


class SegmentIndexes:
    """Least recently used ones are dropped; those under way count as well."""

    def __init__(self, gets: ColdGets, *, max_bytes: int = INDEXES_BYTES) -> None:
        self._gets = gets
        self._max_bytes = max_bytes
        self._tasks: OrderedDict[str, tuple[asyncio.Task[Read], int]] = OrderedDict()
        self._size = 0

    async def read(self, entry: SegmentEntry) -> SegmentIndex:
        """Return the index of a built segment.

        Raises:
            BadObject, ObjectStoreUnavailable: it cannot be read.
        """
        index, _ = await asyncio.shield(self._task(entry, ahead=False))  # others share it
        return index

    def begin(self, entry: SegmentEntry) -> None:
        """Fetch it if it is not here: somebody will wait for it."""
        self._task(entry, ahead=False)

    async def pieces(
        self, entry: SegmentEntry, until_s: float, *, asks: bool = True
    ) -> Sequence[Piece]:
        """Return all blocks of a built segment, in offset order.

        Args:
            entry: of the segment.
            until_s: how long its index is waited for.
            asks: whether the store is asked for one that is not here and not under way.

        Raises:
            BadObject, ObjectStoreUnavailable: its index cannot be read, or not until then.
        """
        if entry.path not in self._tasks and not (asks and now_s() < until_s):
            raise ObjectStoreUnavailable(
                f"index of {entry.path}: not asked for, others had {NOT_IN_TIME}"
            )
        task = self._task(entry, ahead=False)
        if not task.done():
            await wait_until(until_s, [task])
        if not task.done():
            raise ObjectStoreUnavailable(f"index of {entry.path}: {NOT_IN_TIME}")
        _, pieces = task.result()
        return pieces

    def look_ahead(self, entry: SegmentEntry) -> Sequence[Piece] | None:
        """Return all of its blocks if its index is here; else fetch that, for whoever comes."""
        task = self._task(entry, ahead=True)
        if not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()[1]

    async def close(self) -> None:
        tasks = [task for task, _ in self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _task(self, entry: SegmentEntry, *, ahead: bool) -> "asyncio.Task[Read]":
        known = self._tasks.get(entry.path)
        if known is not None:
            self._tasks.move_to_end(entry.path)
            return known[0]
        task = asyncio.create_task(self._get(entry, ahead=ahead))
        size = entry.index_length * _EXPANSION
        self._tasks[entry.path] = (task, size)
        self._size += size
        task.add_done_callback(lambda done: self._keep_or_drop(entry.path, done))
        return task

    async def _get(self, entry: SegmentEntry, *, ahead: bool) -> Read:
        start = entry.start + entry.length
        data = await self._gets.get(entry.path, start, entry.index_length, ahead=ahead)
        try:
            index = parse_index(data)
        except CorruptObject as error:
            raise CorruptObject(f"index of {entry.path}: {error}") from error
        if (index.start_offset, index.end_offset) != (entry.start_offset, entry.end_offset):
            raise CorruptObject(
                f"{entry.path} has offsets {index.start_offset} to {index.end_offset}, not "
                f"{entry.start_offset} to {entry.end_offset}"
            )
        return index, pieces_of_segment(entry, index, entry.start_offset)

    def _keep_or_drop(self, path: str, task: "asyncio.Task[Read]") -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and path in self._tasks and self._tasks[path][0] is task:
            self._drop(path)  # the next reader tries again
        for old, (of_old, _) in list(self._tasks.items()):
            if self._size <= self._max_bytes:
                return
            if of_old.done() and of_old is not task:
                self._drop(old)

    def _drop(self, path: str) -> None:
        _, size = self._tasks.pop(path)
        self._size -= size
