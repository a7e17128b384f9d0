"""The builder (D6): many small rows of a partition become one `.seg` object of its own.

    plan -> task -> claim -> take rows -> read, recompress, lay out -> upload -> swap

A partition is due when a whole segment has gathered, or many rows, or when what has gathered is
old. New rows are built together with the segments just before them as long as each is no larger
than all that follows it: so a partition with little traffic gets large segments, too, and every
byte is written again only about log2(target / first build) times.

A segment takes the place of whole rows, so one row alone may exceed the target. Rows whose bytes
cannot be read, not at a second try either, stay as they are for good, and are stepped over once an
object behind them can be read: for readers nothing is skipped.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from protocol.ids import Partition
from storage.aborted_ranges import aborted_ranges
from storage.config import UpkeepConfig
from storage.errors import UnknownPartition
from storage.metadata.port import MetadataStore
from storage.metadata.segments import TaskKind, UnbuiltRange
from storage.metadata.usage import UPKEEP_CLIENT
from storage.objects.port import ObjectStore
from storage.upkeep.lost_rows import MOST_TRIED, lost_rows, read_again
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.resting_partitions import RestingPartitions
from storage.upkeep.rows_to_build import RowsToBuild, choose_rows
from storage.upkeep.segment_layout import SegmentLayout, UnreadableRow
from storage.upkeep.segment_swap import SegmentSwapper
from storage.upkeep.task_lease import claimed
from storage.usage_counter import charged

TURN_S: Final = 60.0
"""After so long a partition lets others have their turn; one segment takes seconds."""

TRIES: Final = 3
"""Rows may change while they are read: records are deleted, or somebody else builds."""

PAGE: Final = 1000


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


class _RowsChanged(Exception):
    """The rows that were read are not in the log any more, or were read wrong."""


class Builder:
    """See the module's docstring.

    Args:
        policy_of: what a topic's configs ask for; None if it is gone, or not known yet.
        clock: monotonic, in seconds.

    Attributes:
        counts: for the metrics.
    """

    def __init__(
        self,
        *,
        metadata: MetadataStore,
        objects: ObjectStore,
        config: UpkeepConfig,
        policy_of: Callable[[UUID], TopicPolicy | None],
        clock: Callable[[], float],
    ) -> None:
        self.counts = BuildCounts()
        self._metadata = metadata
        self._objects = objects
        self._config = config
        self._policy_of = policy_of
        self._clock = clock
        self._swapper = SegmentSwapper(metadata, objects, clock)
        self._resting = RestingPartitions(self.counts, clock)

    async def plan(self) -> None:
        """Look at all partitions once, and make tasks of those that are due.

        Raises:
            MetadataUnavailable: no answer; the next round sees the same.
        """
        self._resting.keep(lambda each: self._policy_of(each.topic_id) is not None)
        after: Partition | None = None
        while True:
            ranges, after = await self._metadata.unbuilt_ranges(
                after, PAGE, self._config.segment_rows
            )
            due = [unbuilt.partition for unbuilt in ranges if self._is_due(unbuilt)]
            if due:
                await self._metadata.add_tasks(TaskKind.BUILD, due)
            if after is None:
                return

    async def work_once(self) -> bool:
        """Do one task: build a partition until no more is due, or its turn is over.

        Returns:
            False if there was no task.

        Raises:
            MetadataUnavailable, ObjectStoreUnavailable: no answer; the task waits for its lease.
        """
        goes_on = False
        async with claimed(self._metadata, TaskKind.BUILD) as partition:
            if partition is None:
                return False
            until_s = self._clock() + TURN_S
            resting = self._resting.at_the_cost_of(partition)
            with resting, charged([partition.topic_id], UPKEEP_CLIENT):
                goes_on = await self._build_if_due(partition)
                while goes_on and self._clock() < until_s:
                    goes_on = await self._build_if_due(partition)
        if goes_on:
            await self._metadata.add_tasks(TaskKind.BUILD, [partition])
        return True

    async def build(self, partition: Partition) -> BuildResult | None:
        """Build one segment of what is not built yet, however little it is.

        Returns:
            None if there is nothing, the partition is gone, the rows change all the time, or their
            bytes cannot be read.

        Raises:
            MetadataUnavailable, ObjectStoreUnavailable: no answer; trying again is safe.
        """
        unbuilt = await self._look(partition)
        return None if unbuilt is None else await self._build(unbuilt)

    async def _build_if_due(self, partition: Partition) -> bool:
        unbuilt = await self._look(partition)
        if unbuilt is None or not self._is_due(unbuilt):
            return False
        return await self._build(unbuilt) is not None

    async def _look(self, partition: Partition) -> UnbuiltRange | None:
        before = partition._replace(index=partition.index - 1)
        ranges, _ = await self._metadata.unbuilt_ranges(before, 1, self._config.segment_rows)
        return ranges[0] if ranges and ranges[0].partition == partition else None

    def _is_due(self, unbuilt: UnbuiltRange) -> bool:
        policy = self._policy_of(unbuilt.partition.topic_id)
        if policy is None or self._resting.rests(unbuilt.partition):
            return False
        return (
            unbuilt.size >= self._target_bytes(policy)
            or unbuilt.rows >= self._config.segment_rows
            or unbuilt.age_ms >= min(policy.segment_ms, self._config.segment_age_ms)
        )

    def _target_bytes(self, policy: TopicPolicy) -> int:
        return min(policy.segment_bytes, self._config.segment_bytes)

    async def _build(self, unbuilt: UnbuiltRange) -> BuildResult | None:
        for _ in range(TRIES):
            policy = self._policy_of(unbuilt.partition.topic_id)
            if policy is None:
                return None
            try:
                return await self._build_once(unbuilt, policy)
            except (_RowsChanged, UnknownPartition):
                self.counts.lost += 1
            found = await self._look(unbuilt.partition)
            if found is None:
                return None
            unbuilt = found
        return None

    async def _build_once(self, unbuilt: UnbuiltRange, policy: TopicPolicy) -> BuildResult | None:
        partition = unbuilt.partition
        rows = await choose_rows(
            self._metadata,
            partition,
            policy,
            built_offset=unbuilt.built_offset,
            target_bytes=self._target_bytes(policy),
        )
        if not rows.unbuilt:
            return None
        try:
            layout = await self._lay_out(partition, policy, rows)
        except UnreadableRow as unreadable:
            behind = await self._step_over(partition, policy, unreadable)
            if behind is None:
                return None
            return await self._build_once(replace(unbuilt, built_offset=behind), policy)
        if layout is None:
            return None
        first, last = layout.rows[0], layout.rows[-1]
        end_offset = last.end_offset + 1
        aborted = await aborted_ranges(self._metadata, partition, first.start_offset, end_offset)
        built = layout.finish(aborted)
        path = await self._swapper.swap(partition, built, layout.rows)
        if path is None:
            raise _RowsChanged
        self.counts.segments += 1
        self.counts.rows += len(layout.rows)
        self.counts.size += built.size
        self.counts.not_recompressed += layout.not_recompressed
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
                self._objects, partition, policy, target_bytes=self._target_bytes(policy)
            )
            try:
                if await layout.fill(chosen):
                    return layout
            except UnreadableRow as unreadable:
                entry = unreadable.entry
                if await self._metadata.segments_from(partition, entry.end_offset, 1) != [entry]:
                    raise _RowsChanged from unreadable  # and its bytes went after it
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
        if await read_again(self._objects, first.entry) is None:
            raise _RowsChanged from first
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
            raise _RowsChanged
        return end_offset + 1
