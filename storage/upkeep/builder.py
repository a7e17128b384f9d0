"""The builder (D6): many small rows of a partition become one `.seg` object of its own.

    plan -> task -> claim -> take rows -> read, recompress, lay out -> upload -> swap

A partition is due when a whole segment has gathered, or many rows, or when what has gathered is
old. New rows are built together with the segments just before them as long as each is no larger
than all that follows it: so a partition with little traffic gets large segments, too, and every
byte is written again only about log2(target / first build) times.
segment_build.py makes one of them.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from protocol.ids import Partition
from storage.config import UpkeepConfig
from storage.errors import UnknownPartition
from storage.metadata.port import MetadataStore
from storage.metadata.segments import UnbuiltRange
from storage.metadata.tasks import TaskKind
from storage.metadata.usage import UPKEEP_CLIENT
from storage.objects.port import ObjectStore
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.resting_partitions import RestingPartitions
from storage.upkeep.segment_build import BuildCounts, BuildResult, SegmentBuild
from storage.upkeep.segment_layout import RowsChanged
from storage.upkeep.segment_swap import SegmentSwapper
from storage.upkeep.task_lease import claimed
from storage.usage_counter import charged

TURN_S: Final = 60.0
"""After so long a partition lets others have their turn; one segment takes seconds."""

TRIES: Final = 3
"""Rows may change while they are read: records are deleted, or somebody else builds."""

PAGE: Final = 1000


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
        self._config = config
        self._policy_of = policy_of
        self._clock = clock
        self._resting = RestingPartitions(self.counts, clock)
        self._builds = SegmentBuild(
            metadata=metadata,
            objects=objects,
            swapper=SegmentSwapper(metadata, objects, clock),
            most_bytes=config.segment_bytes,
            counts=self.counts,
            resting=self._resting,
        )

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
        most_age_ms = min(policy.segment_ms, self._config.segment_age_ms)
        if policy.compact:  # only what is built is compacted
            most_age_ms = min(most_age_ms, policy.max_compaction_lag_ms)
        return (
            unbuilt.size >= self._builds.target_bytes(policy)
            or unbuilt.rows >= self._config.segment_rows
            or unbuilt.age_ms >= most_age_ms
        )

    async def _build(self, unbuilt: UnbuiltRange) -> BuildResult | None:
        for _ in range(TRIES):
            policy = self._policy_of(unbuilt.partition.topic_id)
            if policy is None:
                return None
            try:
                return await self._builds.build(unbuilt, policy)
            except (RowsChanged, UnknownPartition):
                self.counts.lost += 1
            found = await self._look(unbuilt.partition)
            if found is None:
                return None
            unbuilt = found
        return None
