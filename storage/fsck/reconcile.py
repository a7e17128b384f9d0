"""Objects of the store that the index does not know (`streamctl reconcile`).

Whoever uploads has reserved the path before, and its row goes after its bytes. So an object
without a row was stored when everybody had given it up: an upload that arrived hours late. There
are next to none of these. Where there are many, where one has records from behind the end of a log,
or where one has offsets of a row whose own object is not there, it is not the store that has too
much: the index has lost something. Then nothing is deleted; nor where one may have what a recovery
did not find, or left out: offsets that the log has not, or has only a gap for, a segment that
contradicts those of the log, or one that nobody can read.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from protocol.ids import Partition
from storage.errors import ObjectMissing, ObjectStoreUnavailable
from storage.fsck.fsck_objects import OLD_MS, PAGE, SHARDS
from storage.fsck.orphans import OrphanNeeded, extents_of, is_segment
from storage.gap_segment import is_gap
from storage.metadata.port import MetadataStore
from storage.objects.port import ObjectStore, StoredObject
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
            IndexTooOld, OrphanNeeded: nothing may be deleted.
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
            OrphanNeeded: it may have what a recovery did not find.
        """
        extents = await extents_of(self._objects, orphan)
        if is_segment(orphan):
            for partition in extents:
                if await self._metadata.topic_folder(partition.topic_id) is None:
                    raise IndexTooOld(
                        f"{orphan.path} has no row, and is of topic {partition.topic_id}, which "
                        f"the database never had a segment of"
                    )
        offsets = await self._metadata.partition_offsets(list(extents))
        for partition, (start_offset, end_offset) in extents.items():
            if partition in offsets and offsets[partition].high_watermark < end_offset:
                raise IndexTooOld(
                    f"{orphan.path} has no row, and records up to offset {end_offset - 1:,} of "
                    f"partition {partition.index} of topic {partition.topic_id}, whose log ends at "
                    f"{offsets[partition].high_watermark:,} in the database"
                )
            await self._check_is_replaced(orphan, partition, start_offset, end_offset)
            if partition in offsets and is_segment(orphan) and not is_gap(orphan.path):
                await self._check_is_covered(orphan, partition, start_offset, end_offset)

    async def _check_is_replaced(
        self, orphan: StoredObject, partition: Partition, start_offset: int, end_offset: int
    ) -> None:
        """Check that the rows of an orphan's offsets have more than a gap, and their objects.

        Of what a writer uploaded, nobody knows that it ever had the offsets that it expected.

        Raises:
            IndexTooOld: a segment had come in the place of one without its object since.
            OrphanNeeded: one has only a gap.
        """
        async for row in self._rows(partition, start_offset, end_offset):
            if row.is_gap and not is_gap(orphan.path):
                raise _needed(orphan, partition, row.start_offset, row.end_offset)
            if not is_segment(orphan):
                continue
            if not await self._is_there(row) and await self._is_in_index(partition, row):
                raise IndexTooOld(
                    f"{orphan.path} has no row, and offsets of partition {partition.index} of "
                    f"topic {partition.topic_id} that the database has in {row.path}, which "
                    f"the store has not"
                )

    async def _check_is_covered(
        self, orphan: StoredObject, partition: Partition, start_offset: int, end_offset: int
    ) -> None:
        """Check that rows have all offsets of a segment, and none begins before and ends in it.

        What is built comes in the place of whole rows. So where one is cut, one of the two was not
        ever in the log, and perhaps a recovery has taken that, and filled up what is behind it.
        What lies before the start of a log may be what it did not take; most often it was deleted.

        Raises:
            OrphanNeeded: it has offsets that the log lacks, or may lack.
        """
        following = start_offset
        async for row in self._rows(partition, start_offset, end_offset):
            if row.start_offset > following:
                raise _needed(orphan, partition, following, row.start_offset - 1)
            following = row.end_offset + 1
            if row.start_offset < start_offset and following < end_offset:
                raise _needed(orphan, partition, following, end_offset - 1)
        if following < end_offset:
            raise _needed(orphan, partition, following, end_offset - 1)

    async def _rows(
        self, partition: Partition, start_offset: int, end_offset: int
    ) -> AsyncIterator[SegmentEntry]:
        """Yield the rows that have some of these offsets."""
        while start_offset < end_offset:
            rows = await self._metadata.segments_from(partition, start_offset, ROWS_AT_ONCE)
            if not rows:
                return
            for row in rows:
                if row.start_offset >= end_offset:
                    return
                yield row
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


def _needed(orphan: StoredObject, partition: Partition, first: int, last: int) -> OrphanNeeded:
    return OrphanNeeded(
        f"{orphan.path} has no row, and perhaps offsets of partition {partition.index} of topic "
        f"{partition.topic_id} that the log lacks: {first:,} to {last:,}",
        fix=(
            "stop the brokers, and rebuild the index in an empty database: streamctl recover. Or "
            "take the object out of the store yourself, if these records are not wanted"
        ),
    )
