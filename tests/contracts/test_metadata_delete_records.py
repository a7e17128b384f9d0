"""What storage/metadata/port.py promises, asked of every store: records that are deleted."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from protocol.ids import Partition
from storage.metadata.port import MetadataStore
from storage.partition_offsets import PartitionOffsets
from tests.contracts.metadata_stores import (
    KINDS,
    a_batch,
    commit,
    create_partitions,
    ends_at,
    open_store,
    short,
)


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[MetadataStore]:
    """Each store in turn, empty."""
    async with open_store(request.param) as opened:
        yield opened.store


def stands(log_start_offset: int, high_watermark: int) -> PartitionOffsets:
    return PartitionOffsets(
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        aborted_count=0,
    )


async def test_a_log_begins_where_it_is_told(store: MetadataStore) -> None:
    # Given partitions with records, and one without
    first, second, empty = await create_partitions(store, 3)
    await commit(store, [a_batch(first, 0), a_batch(second, 100)])
    await commit(store, [a_batch(first, 0)])

    # When records are deleted, of all, and of partitions that do not exist
    missing = [Partition(first.topic_id, 9), Partition(uuid4(), 0)]
    wanted = {missing[0]: 0, second: -1, empty: -1, missing[1]: -1, first: 13}
    found = await store.delete_records(wanted)

    # Then each begins there, and goes on where it ended
    assert found == {first: stands(13, 20), second: stands(10, 10), empty: ends_at(0)}
    assert await store.partition_offsets([first, second, empty]) == found
    (outcome,) = await commit(store, [a_batch(first, 0)])
    assert (short(outcome), outcome.log_start_offset) == (20, 13)


async def test_a_log_never_begins_earlier_nor_behind_its_end(store: MetadataStore) -> None:
    # Given a partition that begins at 5
    (partition,) = await create_partitions(store, 1)
    await commit(store, [a_batch(partition, 0)])
    await store.delete_records({partition: 5})

    # When it is told to begin before, there, or behind its end, then it stays as it is
    for offset in (0, 4, 5, 11):
        assert await store.delete_records({partition: offset}) == {partition: stands(5, 10)}

    # And it may begin at its end, and is empty then
    assert await store.delete_records({partition: 10}) == {partition: stands(10, 10)}
    assert await store.find_max_timestamp(partition) is None


async def test_deleted_records_are_not_found_by_timestamp(store: MetadataStore) -> None:
    # Given three runs, the first of which has the latest timestamp
    (partition,) = await create_partitions(store, 1)
    for timestamp_ms in (300, 100, 200):
        await commit(store, [a_batch(partition, 0, timestamp_ms=timestamp_ms)])

    # When part of the first is deleted, then it is found still; and when all is, the others are
    for offset, earliest, latest in ((9, 0, 0), (10, 10, 20)):
        await store.delete_records({partition: offset})
        found = await store.find_timestamp(partition, 100)
        assert found is not None
        assert found.start_offset == earliest
        found = await store.find_max_timestamp(partition)
        assert found is not None
        assert found.start_offset == latest
