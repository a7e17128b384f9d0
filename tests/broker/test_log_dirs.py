"""Sizes for tools: who asks at the same time shares a query, and its answer is kept a while."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

import pytest

from broker.log_dirs import KEEP_TIMES, QUICK_S, LogDir
from protocol.ids import Partition
from storage.errors import MetadataUnavailable
from tests.contracts.metadata_stores import a_batch, commit, create_partitions
from tests.support.fakes.metadata import MemoryMetadata

TOOK_S: Final = 2.0


class SlowMetadata(MemoryMetadata):
    """Every sum takes `took_s` of the test's clock, and fails while `available` is false."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.available = True
        self.asked = 0
        self.now_s = 0.0
        self.took_s = TOOK_S

    async def partition_sizes(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        self.asked += 1
        await asyncio.sleep(0)
        self.now_s += self.took_s
        if not self.available:
            raise MetadataUnavailable("test")
        return await super().partition_sizes(partitions)


@pytest.fixture
def store() -> SlowMetadata:
    return SlowMetadata()


@pytest.fixture
def log_dir(store: SlowMetadata) -> LogDir:
    return LogDir(store, "s3://bucket", lambda: store.now_s)


async def test_an_answer_is_kept_as_long_as_it_cost(store: SlowMetadata, log_dir: LogDir) -> None:
    # Given sizes that were asked for by three at the same time
    partitions = await create_partitions(store, 2)
    asking = [log_dir.all_sizes(1, lambda: partitions) for _ in range(3)]
    assert await asyncio.gather(*asking) == [dict.fromkeys(partitions, 0)] * 3
    assert store.asked == 1

    # When something is written, and they are asked for within the time
    await commit(store, [a_batch(partitions[0], 0, length=100)])
    store.now_s += TOOK_S * KEEP_TIMES - 1
    assert await log_dir.all_sizes(1, lambda: partitions) == dict.fromkeys(partitions, 0)

    # Then it shows once the time is over, or at once if some partitions are asked for
    assert await log_dir.sizes(partitions[:1]) == {partitions[0]: 100}
    store.now_s += 1
    assert await log_dir.all_sizes(1, lambda: partitions) == {partitions[0]: 100, partitions[1]: 0}


async def test_a_quick_answer_is_not_kept(store: SlowMetadata, log_dir: LogDir) -> None:
    (partition,) = await create_partitions(store, 1)
    store.took_s = QUICK_S
    for length in (1, 2):
        await commit(store, [a_batch(partition, 0, length=1)])
        assert await log_dir.all_sizes(1, lambda: [partition]) == {partition: length}


async def test_other_partitions_are_measured_anew(store: SlowMetadata, log_dir: LogDir) -> None:
    first, second = await create_partitions(store, 2)
    assert await log_dir.all_sizes(1, lambda: [first]) == {first: 0}
    assert await log_dir.all_sizes(2, lambda: [second]) == {second: 0}


async def test_a_set_of_brokers_that_is_over_is_not_remembered(
    store: SlowMetadata, log_dir: LogDir
) -> None:
    # Given a sum under way when the set of brokers changes
    first, second = await create_partitions(store, 2)
    before = asyncio.create_task(log_dir.all_sizes(1, lambda: [first]))
    await asyncio.sleep(0)
    after = asyncio.create_task(log_dir.all_sizes(2, lambda: [second]))

    # Then each has what it asked for, and the newer one is remembered
    assert await before == {first: 0}
    assert await after == {second: 0}
    assert await log_dir.all_sizes(2, lambda: [second]) == {second: 0}
    assert store.asked == 2


async def test_the_last_answer_is_given_while_there_is_no_other(
    store: SlowMetadata, log_dir: LogDir
) -> None:
    partitions = await create_partitions(store, 1)
    store.available = False
    with pytest.raises(MetadataUnavailable):
        await log_dir.all_sizes(1, lambda: partitions)
    store.available = True
    known = await log_dir.all_sizes(1, lambda: partitions)
    store.available = False
    store.now_s += TOOK_S * KEEP_TIMES
    assert await log_dir.all_sizes(1, lambda: partitions) == known
    assert store.asked == 3


async def test_nothing_is_asked_for_no_partitions(store: SlowMetadata, log_dir: LogDir) -> None:
    assert await log_dir.sizes([]) == {}
    assert store.asked == 0
