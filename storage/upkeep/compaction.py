"""Log compaction (cleanup.policy=compact): of each key the latest record stays.

    plan -> task -> claim -> rounds: (map of latest offsets -> rewrite from the log start on)

As Apache Kafka's log cleaner does it: the log has a clean part, in which a key has one record, and
a dirty one behind it. A round reads the dirty part to learn the latest offset of each key, then
goes through the whole log and leaves out what is obsolete: see storage/upkeep/compaction_batches.py
for records, compaction_segment.py for tombstones and compaction_transactions.py for transactions.
When the map is full, the round ends there, and the next one begins there: memory has a limit,
whatever the number of keys.

Segments are replaced in ascending order, group by group, so what is left is right after each of
them: an older record of a key never outlives a later one. Nothing else has to be remembered, and a
round that is cut off anywhere is simply begun again. Rows that somebody else has changed end a
round; what was done until then counts. Built segments before the last stable offset are compacted,
and nothing younger than min.compaction.lag.ms.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final
from uuid import UUID

from protocol.ids import Partition
from storage.config import UpkeepConfig
from storage.errors import UnknownPartition
from storage.metadata.port import MetadataStore
from storage.metadata.segments import CleanableRange
from storage.metadata.tasks import TaskKind
from storage.metadata.usage import UPKEEP_CLIENT
from storage.objects.port import ObjectStore
from storage.segment_entry import SegmentEntry
from storage.upkeep.compaction_counts import CompactionCounts
from storage.upkeep.compaction_round import CompactionRound
from storage.upkeep.compaction_rows import CompactionRows
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.resting_partitions import RestingPartitions
from storage.upkeep.segment_layout import RowsChanged, UnreadableRow
from storage.upkeep.segment_swap import SegmentSwapper
from storage.upkeep.task_lease import claimed
from storage.usage_counter import charged

PAGE: Final = 1000


def is_due(found: CleanableRange, policy: TopicPolicy, now_ms: int) -> bool:
    """Return whether enough of a partition is dirty, or something may have been for too long.

    The builder merges dirty segments with what follows, so what the oldest of them says of its age
    is not enough: what is dirty was at least not compacted the last time. So however little comes,
    it is compacted once in max.compaction.lag.ms (KIP-354).

    Args:
        found: of the partition.
        policy: of its topic.
        now_ms: Unix time.
    """
    if found.first_dirty_offset >= found.end_offset or not found.dirty_size:
        return False
    if found.dirty_size / (found.clean_size + found.dirty_size) > policy.min_cleanable_dirty_ratio:
        return True
    return found.dirty_since_ms < now_ms - policy.max_compaction_lag_ms


class Compactor:
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
        self.counts = CompactionCounts()
        self._metadata = metadata
        self._objects = objects
        self._config = config
        self._policy_of = policy_of
        self._swapper = SegmentSwapper(metadata, objects, clock)
        self._resting = RestingPartitions(self.counts, clock)

    async def plan(self, partitions: Sequence[Partition]) -> None:
        """Make tasks of those partitions that are due.

        Args:
            partitions: of topics with the cleanup policy compact.

        Raises:
            MetadataUnavailable: no answer; the next round sees the same.
        """
        self._resting.keep(lambda each: self._policy_of(each.topic_id) is not None)
        for start in range(0, len(partitions), PAGE):
            now_ms = await self._metadata.clock_ms()  # not of this machine: it may be far out
            ranges = await self._metadata.cleanable_ranges(partitions[start : start + PAGE])
            due = [found.partition for found in ranges if self._is_due(found, now_ms)]
            if due:
                await self._metadata.add_tasks(TaskKind.COMPACT, due)

    async def work_once(self) -> bool:
        """Do one task: compact a partition, if it is still due.

        Returns:
            False if there was no task.

        Raises:
            MetadataUnavailable, ObjectStoreUnavailable: no answer; the task waits for its lease.
        """
        async with claimed(self._metadata, TaskKind.COMPACT) as partition:
            if partition is None:
                return False
            resting = self._resting.at_the_cost_of(partition)
            with resting, charged([partition.topic_id], UPKEEP_CLIENT):
                await self.compact(partition, only_if_due=True)
        return True

    async def compact(self, partition: Partition, *, only_if_due: bool = False) -> int:
        """Compact a partition, however little of it is dirty unless it has to be due.

        Returns:
            how many rounds it took; 0 if nothing is dirty, or may be compacted yet.

        Raises:
            MetadataUnavailable, ObjectStoreUnavailable: no answer; trying again is safe.
        """
        rounds = 0
        try:
            now_ms = await self._metadata.clock_ms()
            found = await self._look(partition, now_ms)
            if only_if_due and (found is None or not self._is_due(found, now_ms)):
                return 0
            while found is not None and found.first_dirty_offset < found.end_offset:
                policy = self._policy_of(partition.topic_id)
                if policy is None:
                    break
                goes_on = await self._one_round(found, policy, now_ms)
                rounds += 1
                if not goes_on:
                    break
                now_ms = await self._metadata.clock_ms()
                found = await self._look(partition, now_ms)
        except (RowsChanged, UnknownPartition):
            self.counts.lost += 1
        except UnreadableRow as unreadable:
            policy = self._policy_of(partition.topic_id)
            name = str(partition.topic_id) if policy is None else policy.name
            self._resting.note_unreadable(partition, name, unreadable)
            self._resting.rest(partition)
        return rounds

    def _is_due(self, found: CleanableRange, now_ms: int) -> bool:
        policy = self._policy_of(found.partition.topic_id)
        if policy is None or not policy.compact or self._resting.rests(found.partition):
            return False
        return is_due(found, policy, now_ms)

    async def _look(self, partition: Partition, now_ms: int) -> CleanableRange | None:
        """Return what is cleanable, without what is too young."""
        policy = self._policy_of(partition.topic_id)
        ranges = await self._metadata.cleanable_ranges([partition])
        if policy is None or not policy.compact or not ranges:
            return None
        found = ranges[0]
        before_ms = now_ms - policy.min_compaction_lag_ms
        end_offset = start_offset = found.first_dirty_offset
        size = 0
        rows = CompactionRows(self._metadata, self._objects, partition)
        async with aclosing(rows.pages(start_offset, found.end_offset)) as pages:
            async for page in pages:
                newest_ms = await self._newest_ms(page) if policy.min_compaction_lag_ms else {}
                for row in page:
                    if newest_ms.get(row.end_offset, before_ms) > before_ms:
                        return replace(found, end_offset=end_offset, dirty_size=size)
                    end_offset = row.end_offset + 1
                    size += row.length
        return replace(found, end_offset=end_offset, dirty_size=size)

    async def _newest_ms(self, rows: Sequence[SegmentEntry]) -> dict[int, int]:
        """Return when the newest record of each row was made, by the row's end offset.

        Of records that do not tell, it is when their object was stored. What stands for a gap has
        none, and is as young as the recovery that found it.
        """
        with_records = [row for row in rows if not row.is_gap]
        untold = [row.path for row in with_records if row.max_timestamp_ms < 0]
        stored_ms = await self._metadata.stored_ms(untold) if untold else {}
        return {
            row.end_offset: row.max_timestamp_ms
            if row.max_timestamp_ms >= 0
            else stored_ms.get(row.path, row.max_timestamp_ms)
            for row in with_records
        }

    async def _one_round(self, found: CleanableRange, policy: TopicPolicy, now_ms: int) -> bool:
        """Return whether another round has to follow.

        Nothing of a round is left when it returns: there is memory for one map only.
        """
        await self._read_again(found)
        one_round = CompactionRound(
            metadata=self._metadata,
            objects=self._objects,
            swapper=self._swapper,
            config=self._config,
            policy=policy,
            found=found,
            now_ms=now_ms,
            counts=self.counts,
        )
        return await one_round.run()

    async def _read_again(self, found: CleanableRange) -> None:
        """Read the row at which the last round ended, if it did at one that is damaged.

        The next round would end there, too, and nothing would be left of what it learns on its way.

        Raises:
            RowsChanged, UnreadableRow: it would.
            MetadataUnavailable, ObjectStoreUnavailable: no answer; trying again is safe.
        """
        row = self._resting.unreadable(found.partition)
        if row is None or not found.log_start_offset <= row.end_offset < found.end_offset:
            return
        rows = CompactionRows(self._metadata, self._objects, found.partition)
        async with aclosing(rows.parts(row.start_offset, row.end_offset + 1)) as parts:
            async for _ in parts:
                pass
        self._resting.note_readable(found.partition)
