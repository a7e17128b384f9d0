"""What the store tells of offsets whose records it has not: they are not given again."""

from collections.abc import AsyncIterator

import pytest

from storage.fsck.index_age import check_index_age
from storage.partition_offsets import PartitionOffsets
from storage.recovery.recover_told import COUNT_MARGIN
from storage.wal_index import WalEnding
from tests.storage.stored_log import StoredLog, stored_log
from tests.storage.test_recover_store import recover, values


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    """A record in partition 0; what is written from now on is told."""
    async with stored_log() as opened:
        await opened.write(b"a")
        opened.tells = True
        yield opened


async def offsets(log: StoredLog, index: int) -> PartitionOffsets:
    partition = log.partition(index)
    return (await log.metadata.partition_offsets([partition]))[partition]


async def test_a_log_of_which_nothing_is_left_begins_where_it_ended(log: StoredLog) -> None:
    # Given records that retention took away, while an object tells where they were
    expired = await log.write(b"b", b"c", index=1)
    await log.tell()
    log.spoil(expired, None)

    # When the index is recovered, then none of them is lost, and their offsets are not given again
    report = await recover(log)
    assert [topic.lost for topic in report.topics] == [[]]
    end = 2 + COUNT_MARGIN
    assert await offsets(log, 1) == PartitionOffsets(end, end, end, 0)
    log.ends[log.partition(1)] = end
    await log.write(b"d", index=1)
    assert await values(log, 1) == {end: 1}

    # And a broker starts with it
    await check_index_age(log.metadata, log.objects)


async def test_what_is_lost_at_the_end_leaves_its_offsets_taken(log: StoredLog) -> None:
    # Given records that are lost, while an object tells where they were
    lost = await log.write(b"b", b"c")
    await log.tell()
    log.spoil(lost, None)

    # When the index is recovered, then that is told, and a broker starts with it
    report = await recover(log)
    assert report.topics[0].lost == [(0, 1, 2)]
    end = 3 + COUNT_MARGIN
    assert await offsets(log, 0) == PartitionOffsets(0, end, end, 0)
    await check_index_age(log.metadata, log.objects)


async def test_a_log_of_which_nothing_is_left_but_an_end_begins_behind_it(log: StoredLog) -> None:
    # Given the end of a transaction in a partition, and nothing else of that
    await log.tell(WalEnding(0, 1, 41, 7, 0, committed=True, timestamp_ms=1000))
    await recover(log)
    assert await offsets(log, 1) == PartitionOffsets(42, 42, 42, 0)
    await check_index_age(log.metadata, log.objects)
