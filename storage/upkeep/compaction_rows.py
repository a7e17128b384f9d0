"""The built part of a partition, page by page, and what is in it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from protocol.ids import Partition
from storage.errors import BadObject
from storage.metadata.segments import SegmentStore
from storage.objects.port import ObjectStore
from storage.segment_entry import SegmentEntry
from storage.upkeep.segment_layout import RowsChanged, UnreadableRow
from storage.upkeep.segment_rows import RowPart, read_rows

PAGE: Final = 50  # of up to a gigabyte each: the builder merges those at the end meanwhile


class CompactionRows:
    """Reads one partition.

    Args:
        metadata: where its rows are.
        objects: where their bytes are.
        partition: of the rows.
    """

    def __init__(self, metadata: SegmentStore, objects: ObjectStore, partition: Partition) -> None:
        self._metadata = metadata
        self._objects = objects
        self._partition = partition

    async def pages(self, start_offset: int, end_offset: int) -> AsyncGenerator[list[SegmentEntry]]:
        """Yield the rows from the one that holds `start_offset` on, up to `end_offset`.

        Those that end before `end_offset`, side by side: built segments, and what the builder has
        stepped over.

        Raises:
            RowsChanged: between two pages.
            MetadataUnavailable: no answer.
        """
        following: int | None = None
        while start_offset < end_offset:
            page = await self._metadata.segments_from(self._partition, start_offset, PAGE)
            if following is not None and page and page[0].start_offset != following:
                raise RowsChanged
            rows = [row for row in page if row.end_offset < end_offset]
            if rows:
                yield rows
            if len(rows) < PAGE:
                return
            start_offset = following = rows[-1].end_offset + 1

    async def parts(self, start_offset: int, end_offset: int) -> AsyncGenerator[RowPart]:
        """Yield what is in those rows.

        Raises:
            RowsChanged: they are not what they were.
            UnreadableRow: bytes of a row are damaged or missing.
            MetadataUnavailable, ObjectStoreUnavailable: no answer.
        """
        async with aclosing(self.pages(start_offset, end_offset)) as pages:
            async for rows in pages:
                done = 0
                async with aclosing(read_rows(self._objects, rows)) as parts:
                    try:
                        async for part in parts:
                            done += part.is_last
                            yield part
                    except BadObject as error:
                        await self._explain(rows[done], str(error))

    async def _explain(self, entry: SegmentEntry, reason: str) -> None:
        found = await self._metadata.segments_from(self._partition, entry.end_offset, 1)
        if found != [entry]:
            raise RowsChanged  # and its bytes went after it
        raise UnreadableRow(entry, reason)
