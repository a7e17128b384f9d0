"""How large logs are, as storage/metadata/segments.py promises it, asked of every store."""

from collections.abc import AsyncIterator

import pytest

from protocol.ids import Partition
from tests.contracts.metadata_stores import KINDS
from tests.contracts.segment_side import Segments, open_segments


@pytest.fixture(params=KINDS)
async def segments(request: pytest.FixtureRequest) -> AsyncIterator[Segments]:
    """Each store in turn, empty."""
    async with open_segments(request.param) as opened:
        yield opened


async def test_a_log_is_as_large_as_its_batches(segments: Segments) -> None:
    # Given a partition with three objects, one with one, and one with none
    some, one, none = await segments.partitions(3)
    for length in (100, 20, 3):
        await segments.write(some, length=length)
    await segments.write(one, length=7)

    # When sizes are asked for, also of a partition that is not there
    missing = Partition(some.topic_id, 3)
    sizes = await segments.store.partition_sizes([none, missing, some, one])

    # Then each has its own
    assert sizes == {some: 123, one: 7, none: 0}
    assert await segments.store.partition_sizes([]) == {}


async def test_a_built_segment_counts_without_its_index(segments: Segments) -> None:
    (partition,) = await segments.partitions(1)
    for _ in range(2):
        await segments.write(partition, length=100)
    await segments.write(partition, length=5)
    await segments.build(partition, 2, length=150)  # compression may have changed
    assert await segments.store.partition_sizes([partition]) == {partition: 155}


async def test_what_is_before_the_log_start_does_not_count(segments: Segments) -> None:
    # Given three objects of ten records
    (partition,) = await segments.partitions(1)
    for length in (100, 20, 3):
        await segments.write(partition, length=length)

    # When the log begins in the second one
    await segments.store.delete_records({partition: 15})

    # Then the first is not counted any more, before it is purged and after
    assert await segments.store.partition_sizes([partition]) == {partition: 23}
    assert await segments.purge() == 1
    assert await segments.store.partition_sizes([partition]) == {partition: 23}

    # And nothing is left when everything is deleted
    await segments.store.delete_records({partition: -1})
    assert await segments.store.partition_sizes([partition]) == {partition: 0}


async def test_a_deleted_topic_has_no_size(segments: Segments) -> None:
    (partition,) = await segments.partitions(1)
    await segments.write(partition)
    await segments.store.delete_topic(partition.topic_id)
    assert await segments.store.partition_sizes([partition]) == {}
