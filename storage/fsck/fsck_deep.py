"""Whether the bytes of a log are what its index says: all of them are read.

Of the writer's objects and of markers, the checksum of each batch is checked, and that the batches
take exactly the offsets of their row. Of built segments, the header, the index (which has to equal
the row), the checksum of each block and of each batch in it, and that offsets ascend.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Final

from protocol.batch import batch_extents
from protocol.errors import CorruptBatch
from protocol.ids import Partition
from storage.errors import BadObject, CorruptObject
from storage.fsck.fsck_findings import Checked, Findings, Kind
from storage.fsck.fsck_tiling import PartitionState
from storage.metadata.segments import SegmentStore
from storage.objects.port import ObjectStore
from storage.segment import HEADER_BYTES, parse_header
from storage.segment_entry import SegmentEntry
from storage.upkeep.segment_rows import RowPart, read_rows

ROWS_AT_ONCE: Final = 100


class DeepCheck:
    """Reads partitions, one after the other."""

    def __init__(
        self,
        *,
        metadata: SegmentStore,
        objects: ObjectStore,
        findings: Findings,
        checked: Checked,
    ) -> None:
        self._metadata = metadata
        self._objects = objects
        self._findings = findings
        self._checked = checked

    async def run(self, state: PartitionState) -> AsyncIterator[int]:
        """Read a partition from its log start to its high watermark; yield offsets reached.

        Raises:
            MetadataUnavailable, ObjectStoreUnavailable: no answer.
        """
        offset = state.log_start_offset
        while offset < state.high_watermark:
            rows = await self._metadata.segments_from(state.partition, offset, ROWS_AT_ONCE)
            if not rows:  # the partition is gone, or what is missing was found already
                return
            offset = await self._read(state, rows)
            yield offset

    async def _read(self, state: PartitionState, rows: Sequence[SegmentEntry]) -> int:
        """Read rows up to one that cannot be; return where to go on."""
        offset = rows[0].start_offset
        failed: SegmentEntry | None = None
        reason = ""
        async with aclosing(read_rows(self._objects, rows)) as parts:
            position = 0
            try:
                async for part in parts:
                    await self._check(state.partition, part)
                    self._checked.read_bytes += sum(len(batch) for batch in part.batches)
                    if part.is_last:
                        position += 1
                        offset = part.entry.end_offset + 1
            except (BadObject, CorruptBatch) as error:
                failed, reason = rows[position], str(error)
        if failed is None:
            return offset
        return await self._look_again(state, failed, reason)

    async def _look_again(self, state: PartitionState, failed: SegmentEntry, reason: str) -> int:
        """Call a row damaged if it is still there; else what came in its place is to be read."""
        now = await self._metadata.segments_from(state.partition, failed.end_offset, 1)
        if now[:1] != [failed]:
            return failed.start_offset
        where = f"{state.name}: offsets {failed.start_offset:,} to {failed.end_offset:,}"
        named = reason if failed.path in reason else f"{failed.path}: {reason}"
        self._findings.add(Kind.DAMAGED, f"{where}, {named}")
        return failed.end_offset + 1

    async def _check(self, partition: Partition, part: RowPart) -> None:
        entry, index = part.entry, part.index
        if index is None:  # all that there is to check was checked as it was read
            return
        for batch in part.batches:
            for _ in batch_extents(batch):
                pass
        if not part.is_last:
            return
        if (index.topic_id, index.partition) != partition:
            raise CorruptObject(f"{entry.path}: its index is of another partition")
        if index.max_timestamp_ms != entry.max_timestamp_ms:
            raise CorruptObject(f"{entry.path}: its index has another largest timestamp")
        if parse_header(await self._objects.get(entry.path, 0, HEADER_BYTES)) != partition:
            raise CorruptObject(f"{entry.path}: its header is of another partition")
