"""Log compaction on executors: `storage.upkeep.compaction`, a partition of a lease each.

A partition is compacted by one task at a time, and takes a key map of its own
(UpkeepConfig.key_map_bytes) in the memory of its Python worker. What may die is as in building.py:
segments are replaced in ascending order, what is left is right after each of them, and a round that
is cut off anywhere is simply begun again, by Spark or by a broker.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from protocol.ids import Partition
from spark.jobs.options import JobFailed
from spark.upkeep.partition_work import PartitionDone, PartitionOrder, PartitionWork, in_turns
from spark.upkeep.stores import UpkeepStores, open_upkeep
from storage.metadata.segments import CleanableRange
from storage.metadata.tasks import TaskKind
from storage.metadata.usage import UPKEEP_CLIENT
from storage.upkeep.compaction import PAGE, Compactor
from storage.upkeep.task_lease import claimed
from storage.usage_counter import charged

TRIES: Final = 5
"""A builder may merge segments under a round; what the round did until then counts."""


async def plan_compactions(order: PartitionOrder) -> list[PartitionWork]:
    """Return which partitions are compacted, the largest first, of topics with that policy.

    Raises:
        LookupError: there is no topic of a name, or its cleanup policy is not to compact.
        JobFailed: not all configs of the cluster can be read; one may say to keep records.
        WrongStore, MetadataUnavailable, ObjectStoreUnavailable: as `open_upkeep`.
    """
    async with open_upkeep(order.upkeep) as stores:
        partitions = _partitions(stores, order.topics)
        found = await _dirty(stores, partitions)
        if not order.everything:
            await stores.compactor().plan(partitions)
            due = {partition for _, partition in stores.metadata.planned}
            found = [each for each in found if each.partition in due]
        works = [
            PartitionWork(
                partition=each.partition,
                topic=stores.policies.name_of(each.partition.topic_id),
                end_offset=each.end_offset,
                size=each.clean_size + each.dirty_size,
            )
            for each in found
        ]
    return sorted(works, key=lambda work: (-work.size, work.partition))


def _partitions(stores: UpkeepStores, topics: Collection[str]) -> list[Partition]:
    is_wanted = stores.policies.wanted(topics)
    wanted = [item for item in stores.policies.all() if is_wanted(item[0])]
    others = [policy.name for _, policy in wanted if not policy.compact]
    if topics and others:
        raise LookupError(f"the cleanup.policy of {', '.join(sorted(others))} is not compact")
    if stores.policies.unread:
        raise JobFailed(
            "nothing is compacted, for not all configs of the cluster can be read: "
            + "; ".join(stores.policies.unread),
            fix="run the job of the brokers' version, or set them anew (kafka-configs.sh --alter)",
        )
    return [
        Partition(topic_id, index)
        for topic_id, policy in wanted
        if policy.compact
        for index in range(policy.partition_count)
    ]


async def _dirty(stores: UpkeepStores, partitions: list[Partition]) -> list[CleanableRange]:
    """Return those that have anything to clean."""
    found: list[CleanableRange] = []
    for start in range(0, len(partitions), PAGE):
        found += await stores.metadata.cleanable_ranges(partitions[start : start + PAGE])
    return [each for each in found if each.first_dirty_offset < each.end_offset]


def compact_partitions(
    order: PartitionOrder, works: Iterable[PartitionWork]
) -> Iterator[PartitionDone]:
    """Compact partitions, in an executor.

    Raises:
        StorageError: no answer, or the store is another; what was done until then is done.
    """
    yield from asyncio.run(_compact(order, works))


async def _compact(order: PartitionOrder, works: Iterable[PartitionWork]) -> list[PartitionDone]:
    async with open_upkeep(order.upkeep) as stores:
        compactor = stores.compactor()

        async def compact(_: PartitionWork) -> bool:
            for _try in range(TRIES):
                lost = compactor.counts.lost
                if not await _compact_once(stores, compactor, everything=order.everything):
                    return False
                if compactor.counts.lost == lost:
                    break
            return True

        return await in_turns(stores, works, compactor.counts, compact)


async def _compact_once(stores: UpkeepStores, compactor: Compactor, *, everything: bool) -> bool:
    """Return False if somebody else has the partition."""
    if not everything:
        return await compactor.work_once()
    async with claimed(stores.metadata, TaskKind.COMPACT) as partition:
        if partition is None:
            return False
        with charged([partition.topic_id], UPKEEP_CLIENT):
            await compactor.compact(partition)
    return True
