"""Which record has a timestamp: the index leads to a row, that to blocks and the record (KIP-734).

Blocks are read one after the other, only those that may have the record. What the headers say is
trusted to rule a block out, never to name a record: so the search goes on where records hold less.
"""

import asyncio
from collections.abc import AsyncIterator

from protocol.batch_scan import FoundTimestamp, find_first_at_or_after, find_max_timestamp
from protocol.ids import Partition
from storage.block_cache import BlockCache
from storage.block_hold import Hold
from storage.errors import ObjectMissing
from storage.metadata import MetadataStore
from storage.read_plan import Piece, piece_of_row, pieces_of_segment
from storage.runs import Run
from storage.segment_entry import SegmentEntry


class TimestampSearch:
    """Asks Postgres, then reads through the block cache."""

    def __init__(self, metadata: MetadataStore, blocks: BlockCache) -> None:
        self._metadata = metadata
        self._blocks = blocks

    async def first_at_or_after(
        self, partition: Partition, timestamp_ms: int, start_offset: int
    ) -> FoundTimestamp | None:
        """Return the first record from `start_offset` on with that timestamp or a later one.

        Raises:
            CorruptObject, ObjectMissing, ObjectStoreUnavailable: the record's bytes cannot be read.
            MetadataUnavailable: the index gave no answer.
        """
        is_fresh = False
        while True:
            row = await self._metadata.find_timestamp(partition, timestamp_ms, start_offset)
            if row is None:
                return None
            try:
                async for run in self._runs(row, start_offset, timestamp_ms):
                    found = await asyncio.to_thread(
                        find_first_at_or_after, run.batches, timestamp_ms, start_offset
                    )
                    if found is not None:
                        return found
            except ObjectMissing:
                if is_fresh:
                    raise
                is_fresh = True  # the row may have been swapped since: ask again, once
                continue
            start_offset = row.end_offset + 1

    async def latest(self, partition: Partition, start_offset: int) -> FoundTimestamp | None:
        """Return the first record with the largest timestamp; None if there is no record.

        Raises:
            as `first_at_or_after`.
        """
        try:
            return await self._latest(partition, start_offset)
        except ObjectMissing:
            return await self._latest(partition, start_offset)  # the row may have been swapped

    async def _latest(self, partition: Partition, start_offset: int) -> FoundTimestamp | None:
        row = await self._metadata.find_max_timestamp(partition)
        if row is None:
            return None
        async for run in self._runs(row, start_offset, row.max_timestamp_ms):
            found = await asyncio.to_thread(find_max_timestamp, run.batches, start_offset)
            if found is not None:
                return found
        return None

    async def _runs(
        self, row: SegmentEntry, start_offset: int, timestamp_ms: int
    ) -> AsyncIterator[Run]:
        """Yield what may have a record from that offset on with that timestamp or a later one."""
        pieces: list[Piece] = [piece_of_row(row)]
        if row.index_length:
            index = await self._blocks.indexes.read(row)
            pieces = pieces_of_segment(row, index, start_offset)
        for piece in pieces:
            if piece.block is None or piece.block.max_timestamp_ms >= timestamp_ms:
                with Hold(self._blocks) as hold:
                    hold.add([piece])
                    yield await hold.run(piece)
