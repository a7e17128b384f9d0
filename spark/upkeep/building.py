"""Building segments on executors: `storage.upkeep.builder`, a partition of a lease each.

What may die, and what then holds (see storage/upkeep/segment_swap.py, too):
- the driver: its tasks end with it, or go on; each swap is whole, and nobody waits for the driver.
- an executor while it reads or uploads: the log is as it was. The path is pending, the sweeper of
  the brokers takes it away. The task's lease ends after 15 s: then whoever is first goes on, be it
  Spark, which tries the task again, or a broker, whose queue the task is in.
- an executor after the swap: the segment is in the log; the next one finds it built.
- a task that runs twice at the same time: the lease keeps the second one waiting; if a lease ends
  because its holder hangs, both build, one swap wins, and the other one's path is doomed.
"""

import asyncio
from collections.abc import Iterable, Iterator

from protocol.ids import Partition
from spark.upkeep.partition_work import PartitionDone, PartitionOrder, PartitionWork, in_turns
from spark.upkeep.stores import UpkeepStores, open_upkeep
from storage.metadata.segments import UnbuiltRange
from storage.metadata.tasks import TaskKind
from storage.metadata.usage import UPKEEP_CLIENT
from storage.upkeep.builder import PAGE, Builder
from storage.upkeep.task_lease import claimed
from storage.usage_counter import charged


async def plan_builds(order: PartitionOrder) -> list[PartitionWork]:
    """Return which partitions are built, the largest first.

    Raises:
        LookupError: there is no topic of a name.
        WrongStore, MetadataUnavailable, ObjectStoreUnavailable: as `open_upkeep`.
    """
    async with open_upkeep(order.upkeep) as stores:
        is_wanted = stores.policies.wanted(order.topics)
        unbuilt = {found.partition: found for found in await _unbuilt(stores)}
        if not order.everything:
            await stores.builder().plan()
            due = {partition for _, partition in stores.metadata.planned}
            unbuilt = {one: found for one, found in unbuilt.items() if one in due}
        chosen = [one for one in unbuilt if is_wanted(one.topic_id)]
        offsets = await stores.metadata.partition_offsets(chosen)
        works = [
            PartitionWork(
                partition=one,
                topic=stores.policies.name_of(one.topic_id),
                end_offset=offsets[one].high_watermark,
                size=unbuilt[one].size,
            )
            for one in chosen
            if one in offsets and stores.policies.get(one.topic_id)
        ]
    return sorted(works, key=lambda work: (-work.size, work.partition))


async def _unbuilt(stores: UpkeepStores) -> list[UnbuiltRange]:
    found: list[UnbuiltRange] = []
    after: Partition | None = None
    while True:
        page, after = await stores.metadata.unbuilt_ranges(after, PAGE, stores.config.segment_rows)
        found += page
        if after is None:
            return found


def build_partitions(
    order: PartitionOrder, works: Iterable[PartitionWork]
) -> Iterator[PartitionDone]:
    """Build partitions, in an executor.

    Raises:
        StorageError: no answer, or the store is another; what was done until then is done.
    """
    yield from asyncio.run(_build(order, works))


async def _build(order: PartitionOrder, works: Iterable[PartitionWork]) -> list[PartitionDone]:
    async with open_upkeep(order.upkeep) as stores:
        builder = stores.builder()

        async def build(work: PartitionWork) -> bool:
            way = _build_all if order.everything else _build_due
            return await way(stores, builder, work)

        return await in_turns(stores, works, builder.counts, build)


async def _build_due(stores: UpkeepStores, builder: Builder, work: PartitionWork) -> bool:
    """Build until no more is due; return False if somebody else has the partition."""
    task = (TaskKind.BUILD, work.partition)
    while True:
        stores.metadata.planned.discard(task)
        if not await builder.work_once():
            return False
        if task not in stores.metadata.planned:  # else its turn was over, and more is due
            return True


async def _build_all(stores: UpkeepStores, builder: Builder, work: PartitionWork) -> bool:
    """Build all that was there when the job began; return False as above."""
    async with claimed(stores.metadata, TaskKind.BUILD) as partition:
        if partition is None:
            return False
        with charged([partition.topic_id], UPKEEP_CLIENT):
            built = await builder.build(partition)
            while built is not None and built.end_offset + 1 < work.end_offset:
                built = await builder.build(partition)
    return True
