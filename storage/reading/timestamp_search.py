"""Which record has a timestamp: the index leads to a row, that to blocks and the record (KIP-734).

Blocks are read one after the other, only those that may have the record. What the headers say is
trusted to rule a block out, but names a record only where no more can be read: so the search goes
on where records hold less. One request may ask for every partition there is, so only some are
searched at the same time.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from protocol.batch_scan import (
    FoundTimestamp,
    find_first_at_or_after,
    find_max_timestamp,
    may_be_later,
)
from protocol.ids import Partition
from storage.errors import MAY_HAVE_MOVED
from storage.metadata.port import MetadataStore
from storage.reading.block_cache import BlockCache
from storage.reading.block_hold import Hold
from storage.reading.cold_places import ColdPlaces
from storage.reading.read_plan import Piece, piece_of_row, pieces_of_segment
from storage.segment_entry import SegmentEntry

MAX_SEARCHES: Final = 8
"""Rows that are read at the same time: each holds a block, or all of a row of the writer's."""


class TimestampSearch:
    """Asks Postgres, then reads through the block cache."""

    def __init__(self, metadata: MetadataStore, blocks: BlockCache) -> None:
        self._metadata = metadata
        self._blocks = blocks
        self._places = ColdPlaces(MAX_SEARCHES, blocks.answers)

    async def first_at_or_after(
        self, partition: Partition, timestamp_ms: int, start_offset: int
    ) -> FoundTimestamp | None:
        """Return the first record from `start_offset` on with that timestamp or a later one.

        Raises:
            BadObject, ObjectStoreUnavailable: the record's bytes cannot be read.
            MetadataUnavailable: the index gave no answer.
        """
        is_fresh = False
        while True:
            row = await self._metadata.find_timestamp(partition, timestamp_ms, start_offset)
            if row is None:
                return None
            try:
                found = await self._first_in_row(row, timestamp_ms, start_offset)
            except MAY_HAVE_MOVED:
                if is_fresh:
                    raise
                is_fresh = True  # the row may have been swapped since: ask again, once
                continue
            if found is not None:
                return found
            start_offset = row.end_offset + 1
            is_fresh = False

    async def latest(self, partition: Partition, start_offset: int) -> FoundTimestamp | None:
        """Return the first record with the largest timestamp; None if there is no record.

        Raises:
            as `first_at_or_after`.
        """
        try:
            return await self._latest(partition, start_offset)
        except MAY_HAVE_MOVED:
            return await self._latest(partition, start_offset)  # the row may have been swapped

    async def _latest(self, partition: Partition, start_offset: int) -> FoundTimestamp | None:
        row = await self._metadata.find_max_timestamp(partition, start_offset)
        if row is None:
            return None
        latest = await self._latest_in_row(row, start_offset)
        if row.start_offset >= start_offset:
            return latest
        # The log begins inside of this row, whose maximum may lie before; no other row is like it.
        row = await self._metadata.find_max_timestamp(partition, row.end_offset + 1)
        if row is None or not may_be_later(row.max_timestamp_ms, row.start_offset, latest):
            return latest
        found = await self._latest_in_row(row, start_offset)
        is_later = found is not None and may_be_later(found.timestamp_ms, found.offset, latest)
        return found if is_later else latest

    async def _first_in_row(
        self, row: SegmentEntry, timestamp_ms: int, start_offset: int
    ) -> FoundTimestamp | None:
        async with self._places.place():
            for piece in await self._pieces(row, start_offset):
                if _max_timestamp_ms(piece) < timestamp_ms:
                    continue
                find = partial(
                    find_first_at_or_after, timestamp_ms=timestamp_ms, start_offset=start_offset
                )
                if (found := await self._scan(piece, find)) is not None:
                    return found
        return None

    async def _latest_in_row(self, row: SegmentEntry, start_offset: int) -> FoundTimestamp | None:
        latest: FoundTimestamp | None = None
        async with self._places.place():
            pieces = await self._pieces(row, start_offset)
            for piece in sorted(pieces, key=_max_timestamp_ms, reverse=True):  # stable
                if not may_be_later(_max_timestamp_ms(piece), piece.first_offset, latest):
                    continue
                found = await self._scan(
                    piece, partial(find_max_timestamp, start_offset=start_offset)
                )
                if found and may_be_later(found.timestamp_ms, found.offset, latest):
                    latest = found
        return latest

    async def _pieces(self, row: SegmentEntry, start_offset: int) -> Sequence[Piece]:
        if not row.index_length:
            return [piece_of_row(row)]
        return pieces_of_segment(row, await self._blocks.indexes.read(row), start_offset)

    async def _scan(
        self, piece: Piece, find: Callable[[Sequence[memoryview]], FoundTimestamp | None]
    ) -> FoundTimestamp | None:
        with Hold(self._blocks) as hold:
            hold.add([piece])
            await hold.ready([piece])
            return await asyncio.to_thread(find, hold.run(piece).batches)


def _max_timestamp_ms(piece: Piece) -> int:
    """Return what the header says; records may hold less."""
    return (piece.block or piece.entry).max_timestamp_ms
