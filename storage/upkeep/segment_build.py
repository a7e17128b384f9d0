"""One segment: its rows are chosen, read, laid out, uploaded and swapped (builder.py tells when).

A segment takes the place of whole rows, so one row alone may exceed the target. Rows whose bytes
cannot be read, not at a second try either, stay as they are for good, and are stepped over once an
object behind them can be read: for readers nothing is skipped.
"""

from dataclasses import dataclass, replace

from protocol.ids import Partition
from storage.aborted_ranges import aborted_ranges
from storage.metadata.port import MetadataStore
from storage.metadata.segments import UnbuiltRange
from storage.objects.port import ObjectStore
from storage.upkeep.lost_rows import MOST_TRIED, lost_rows, read_patiently
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.resting_partitions import RestingPartitions
from storage.upkeep.rows_to_build import RowsToBuild, choose_rows
from storage.upkeep.segment_layout import RowsChanged, SegmentLayout, UnreadableRow
from storage.upkeep.segment_swap import SegmentSwapper


@dataclass(slots=True, kw_only=True)
class BuildCounts:
    """What a builder has done since its start.

    Attributes:
        segments: swapped in.
        rows: that they have taken the place of.
        size: of the objects, bytes.
        lost: built for nothing, because the rows had changed meanwhile, or came damaged once.
        unreadable: rows left as they are, each time, because bytes are damaged or missing.
        failed: given up because of a bug.
        not_recompressed: batches kept as they are because their payload cannot be undone.
    """

    segments: int = 0
    rows: int = 0
    size: int = 0
    lost: int = 0
    unreadable: int = 0
    failed: int = 0
    not_recompressed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """One segment that is in the log.

    Attributes:
        path: of its object.
        start_offset, end_offset: what it covers (inclusive).
        rows: that it has taken the place of.
        length: bytes of its batches.
    """

    path: str
    start_offset: int
    end_offset: int
    rows: int
    length: int


class SegmentBuild:
    """Makes one segment at a time.

    Args:
        most_bytes: of a segment's batches, however large a topic wants them.
        counts: is added to.
        resting: is told which partitions cannot be read.
    """

    def __init__(
        self,
        *,
        metadata: MetadataStore,
        objects: ObjectStore,
        swapper: SegmentSwapper,
        most_bytes: int,
        counts: BuildCounts,
        resting: RestingPartitions,
    ) -> None:
        self._metadata = metadata
        self._objects = objects
        self._swapper = swapper
        self._most_bytes = most_bytes
        self._counts = counts
        self._resting = resting

    def target_bytes(self, policy: TopicPolicy) -> int:
        """Return how many bytes of batches make a whole segment of a topic."""
        return min(policy.segment_bytes, self._most_bytes)

    async def build(self, unbuilt: UnbuiltRange, policy: TopicPolicy) -> BuildResult | None:
        """Build one segment from where a partition is not built yet.

        Returns:
            None if nothing is left to build, or what is left cannot be read.

        Raises:
            RowsChanged: another try is needed.
            UnknownPartition: it is gone.
            MetadataUnavailable, ObjectStoreUnavailable: no answer; trying again is safe.
        """
        partition = unbuilt.partition
        rows = await choose_rows(
            self._metadata,
            partition,
            policy,
            built_offset=unbuilt.built_offset,
            target_bytes=self.target_bytes(policy),
        )
        if not rows.unbuilt:
            return None
        try:
            layout = await self._lay_out(partition, policy, rows)
        except UnreadableRow as unreadable:
            behind = await self._step_over(partition, policy, unreadable)
            if behind is None:
                return None
            return await self.build(replace(unbuilt, built_offset=behind), policy)
        if layout is None:
            return None
        first, last = layout.rows[0], layout.rows[-1]
        end_offset = last.end_offset + 1
        aborted = await aborted_ranges(self._metadata, partition, first.start_offset, end_offset)
        built = layout.finish(aborted)
        path = await self._swapper.swap(partition, built, layout.rows)
        if path is None:
            raise RowsChanged
        self._counts.segments += 1
        self._counts.rows += len(layout.rows)
        self._counts.size += built.size
        self._counts.not_recompressed += layout.not_recompressed
        return BuildResult(
            path=path,
            start_offset=first.start_offset,
            end_offset=last.end_offset,
            rows=len(layout.rows),
            length=built.length,
        )

    async def _lay_out(
        self, partition: Partition, policy: TopicPolicy, rows: RowsToBuild
    ) -> SegmentLayout | None:
        """Lay out the rows up to one that cannot be read; without the built ones, if it is those.

        Raises:
            UnreadableRow: the first one of the writer's.
        """
        for chosen in ([*rows.built, *rows.unbuilt], rows.unbuilt):
            layout = SegmentLayout(
                self._objects, partition, policy, target_bytes=self.target_bytes(policy)
            )
            try:
                if await layout.fill(chosen):
                    return layout
            except UnreadableRow as unreadable:
                entry = unreadable.entry
                if await self._metadata.segments_from(partition, entry.end_offset, 1) != [entry]:
                    raise RowsChanged from unreadable  # and its bytes went after it
                if layout.rows and not layout.rows[-1].index_length:
                    return layout
                if not entry.index_length:
                    raise
                self._resting.note_unreadable(partition, policy.name, unreadable)
        return None

    async def _step_over(
        self, partition: Partition, policy: TopicPolicy, first: UnreadableRow
    ) -> int | None:
        """Leave out the rows that cannot be read, from the first one that is not built on.

        Returns:
            where to go on; None if nothing behind them can be read, either.
        """
        if await read_patiently(self._objects, first.entry) is None:
            raise RowsChanged from first
        start_offset = first.entry.start_offset
        rows = await self._metadata.segments_from(partition, start_offset, MOST_TRIED)
        lost = await lost_rows(self._objects, rows, first)
        for unreadable in lost or [first]:
            self._resting.note_unreadable(partition, policy.name, unreadable)
        if not lost:
            self._resting.rest(partition)
            return None
        end_offset = lost[-1].entry.end_offset
        if not await self._metadata.step_over(partition, start_offset, end_offset):
            raise RowsChanged
        return end_offset + 1
