"""Objects of the store that the index does not know (`streamctl reconcile`).

Whoever uploads has reserved the path before, and its row goes after its bytes. So an object
without a row was stored when everybody had given it up: an upload that arrived hours late. There
are next to none of these. Where there are many, where one has records from behind the end of a log,
or where one has offsets of a row whose own object is not there, it is not the store that has too
much: the index has lost something. Then nothing is deleted.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from protocol.ids import Partition
from storage import segment, wal_index
from storage.errors import CorruptObject, ObjectMissing, ObjectStoreUnavailable
from storage.fsck.fsck_objects import OLD_MS, PAGE, SHARDS
from storage.metadata.port import MetadataStore
from storage.objects.port import ObjectStore, Owned, StoredObject
from storage.segment_entry import SegmentEntry

MAX_ORPHANS: Final = 1000
ROWS_AT_ONCE: Final = 1000
FEW_ORPHANS: Final = 10
"""So many of a small store are no sign of anything; of a larger one, one in a hundred is."""


class IndexTooOld(Exception):
    """The index has lost objects that the store has; the message says why that is believed."""


@dataclass(slots=True)
class Comparison:
    """What was listed so far.

    Attributes:
        objects: that the store has.
        orphans: old objects without a row.
    """

    objects: int = 0
    orphans: list[StoredObject] = field(default_factory=list)


class Reconciler:
    """One comparison of a store with the index."""

    def __init__(
        self, *, metadata: MetadataStore, objects: ObjectStore, now_ms: Callable[[], int]
    ) -> None:
        self.found = Comparison()
        self._metadata = metadata
        self._objects = objects
        self._now_ms = now_ms
        self._there: set[str] = set()  # objects of rows

    async def find(self) -> AsyncIterator[int]:
        """Look through the store; yield how many of SHARDS are done.

        Raises:
            IndexTooOld: nothing may be deleted.
            MetadataUnavailable, ObjectStoreUnavailable: no answer.
        """
        for done, shard in enumerate(SHARDS, 1):
            page: list[StoredObject] = []
            async for stored in self._objects.list(shard):
                page.append(stored)
                if len(page) == PAGE:
                    await self._compare(page)
                    page = []
            await self._compare(page)
            yield done
        orphans, objects = len(self.found.orphans), self.found.objects
        if orphans > max(objects // 100, FEW_ORPHANS):
            raise IndexTooOld(f"{orphans:,} of {objects:,} objects have no row in the database")
        for orphan in self.found.orphans:
            await self._check_has_its_time(orphan)

    async def delete(self) -> int:
        """Delete the orphans that still have no row; return how many.

        Raises:
            ObjectStoreUnavailable: no answer, or some of them cannot be deleted.
        """
        paths = [orphan.path for orphan in self.found.orphans]
        known = await self._metadata.known_objects(paths)
        gone = [path for path in paths if path not in known]
        refused = await self._objects.delete(gone)
        if refused:
            path, reason = next(iter(refused.items()))
            raise ObjectStoreUnavailable(
                f"{len(refused)} of {len(gone)} objects cannot be deleted, such as {path}: {reason}"
            )
        return len(gone)

    async def _compare(self, page: Sequence[StoredObject]) -> None:
        """Ask for the rows of what was listed: a row came before its object, and goes after it."""
        self.found.objects += len(page)
        before_ms = self._now_ms() - OLD_MS
        old = [stored for stored in page if stored.modified_ms < before_ms]
        known = await self._metadata.known_objects([stored.path for stored in old]) if old else ()
        self.found.orphans += [stored for stored in old if stored.path not in known]
        if len(self.found.orphans) > MAX_ORPHANS:
            raise IndexTooOld(f"more than {MAX_ORPHANS:,} objects have no row in the database")

    async def _check_has_its_time(self, orphan: StoredObject) -> None:
        """Check that no log ends before the records of an orphan.

        Raises:
            IndexTooOld: one does.
        """
        ends, start_offset = await self._ends(orphan)
        if orphan.path.startswith("topics/"):
            for partition in ends:
                if await self._metadata.topic_folder(partition.topic_id) is None:
                    raise IndexTooOld(
                        f"{orphan.path} has no row, and is of topic {partition.topic_id}, which "
                        f"the database never had a segment of"
                    )
        offsets = await self._metadata.partition_offsets(list(ends))
        for partition, end_offset in ends.items():
            if partition in offsets and offsets[partition].high_watermark < end_offset:
                raise IndexTooOld(
                    f"{orphan.path} has no row, and records up to offset {end_offset - 1:,} of "
                    f"partition {partition.index} of topic {partition.topic_id}, whose log ends at "
                    f"{offsets[partition].high_watermark:,} in the database"
                )
            if start_offset is not None:
                await self._check_is_replaced(orphan, partition, start_offset, end_offset)

    async def _check_is_replaced(
        self, orphan: StoredObject, partition: Partition, start_offset: int, end_offset: int
    ) -> None:
        """Check that the rows of an orphaned segment's offsets have their objects.

        Raises:
            IndexTooOld: one has not: the segment had come in its place since.
        """
        while start_offset < end_offset:
            rows = await self._metadata.segments_from(partition, start_offset, ROWS_AT_ONCE)
            if not rows:
                return
            for row in rows:
                if row.start_offset >= end_offset:
                    return
                if not await self._is_there(row) and await self._is_in_index(partition, row):
                    raise IndexTooOld(
                        f"{orphan.path} has no row, and offsets of partition {partition.index} of "
                        f"topic {partition.topic_id} that the database has in {row.path}, which "
                        f"the store has not"
                    )
            start_offset = rows[-1].end_offset + 1

    async def _is_there(self, row: SegmentEntry) -> bool:
        if row.inline is not None or row.path in self._there:
            return True
        try:
            await self._objects.get(row.path, row.start + row.length - 1, 1)
        except ObjectMissing:
            return False
        self._there.add(row.path)
        return True

    async def _is_in_index(self, partition: Partition, row: SegmentEntry) -> bool:
        return await self._metadata.segments_from(partition, row.end_offset, 1) == [row]

    async def _ends(self, orphan: StoredObject) -> tuple[dict[Partition, int], int | None]:
        """Return where the logs of its records have to end at least; none if it is unreadable.

        Returns:
            that; and where a built segment begins.
        """
        try:
            if orphan.path.startswith("topics/"):
                data = await self._tail(orphan, segment.FOOTER_BYTES, segment.parse_index_length)
                found = segment.parse_index(data)
                ends = {Partition(found.topic_id, found.partition): found.end_offset + 1}
                return ends, found.start_offset
            data = await self._tail(orphan, wal_index.FOOTER_BYTES, wal_index.parse_index_length)
            index = wal_index.parse_index(data)
        except CorruptObject:  # an upload that was cut short, or none of ours: no log needs it
            return {}, None
        ends = {}
        for run in index.runs:
            if run.expected_offset != wal_index.UNKNOWN_OFFSET:
                partition = Partition(index.topics[run.topic][0], run.partition)
                end_offset = run.expected_offset + run.record_count
                ends[partition] = max(ends.get(partition, 0), end_offset)
        return ends, None

    async def _tail(
        self, orphan: StoredObject, footer_bytes: int, length_of: Callable[[Owned], int]
    ) -> Owned:
        return await read_tail(self._objects, orphan, footer_bytes, length_of)


async def read_tail(
    objects: ObjectStore,
    stored: StoredObject,
    footer_bytes: int,
    length_of: Callable[[Owned], int],
) -> Owned:
    """Return the index at the end of an object.

    Args:
        objects: where it is.
        stored: the object.
        footer_bytes: how many bytes tell how long the index is.
        length_of: reads that from them.

    Raises:
        CorruptObject: it does not end like one.
        ObjectMissing, ObjectStoreUnavailable: it cannot be read.
    """
    if stored.size < footer_bytes:
        raise CorruptObject(f"{stored.size} bytes are too few")
    first = await objects.get(stored.path, stored.size - footer_bytes, footer_bytes)
    length = length_of(first)
    if not footer_bytes <= length <= stored.size:
        raise CorruptObject(f"an index of {length} bytes in an object of {stored.size}")
    return await objects.get(stored.path, stored.size - length, length)
