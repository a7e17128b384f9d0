"""What storage/metadata/tasks.py promises, asked of every metadata store: rounds and tasks."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from protocol.ids import Partition
from storage.metadata.segments import CleanableRange
from storage.metadata.tasks import TaskKind
from tests.contracts.metadata_stores import KINDS
from tests.contracts.segment_side import HOUR_MS, Segments, open_segments

BUILD, COMPACT = TaskKind.BUILD, TaskKind.COMPACT


@pytest.fixture(params=KINDS)
async def segments(request: pytest.FixtureRequest) -> AsyncIterator[Segments]:
    """Each store in turn, empty."""
    async with open_segments(request.param) as opened:
        yield opened


async def cleanable(segments: Segments, partition: Partition) -> CleanableRange:
    (found,) = await segments.store.cleanable_ranges([partition])
    return found


async def test_a_round_is_done_once_in_its_time(segments: Segments) -> None:
    # When many ask at once, then one of them does it; another round is another's
    asked = (segments.store.begin_round("build", HOUR_MS) for _ in range(5))
    assert sorted(await asyncio.gather(*asked)) == [False] * 4 + [True]
    assert await segments.store.begin_round("sweep", HOUR_MS)

    # And not again before its time, but then
    await segments.passes(HOUR_MS // 2)
    assert not await segments.store.begin_round("build", HOUR_MS)
    await segments.passes(HOUR_MS // 2)
    assert await segments.store.begin_round("build", HOUR_MS)
    assert not await segments.store.begin_round("build", HOUR_MS)


async def test_a_task_is_claimed_by_one(segments: Segments) -> None:
    # Given three tasks, two of which are added again, and one of another kind
    partitions = await segments.partitions(3)
    store = segments.store
    await store.add_tasks(BUILD, partitions)
    await store.add_tasks(BUILD, partitions[:2])
    await store.add_tasks(COMPACT, partitions[2:])
    assert await store.backlog() == {"build": 3, "compact": 1, "pending": 0, "doomed": 0}

    # When more want one than there are, then each task is claimed once
    claims = await asyncio.gather(*(store.claim_task(BUILD, HOUR_MS) for _ in range(5)))
    assert sorted(each for each in claims if each is not None) == partitions
    assert await store.claim_task(COMPACT, HOUR_MS) == partitions[2]

    # And adding one that is claimed makes it no other's
    await store.add_tasks(BUILD, partitions)
    assert await store.claim_task(BUILD, HOUR_MS) is None

    # And those that are finished can be added again
    await store.finish_task(BUILD, partitions[0])
    assert (await store.backlog())["build"] == 2
    assert await store.claim_task(BUILD, HOUR_MS) is None
    await store.add_tasks(BUILD, partitions)
    assert await store.claim_task(BUILD, HOUR_MS) == partitions[0]


async def test_a_task_is_free_again_when_its_lease_is_over(segments: Segments) -> None:
    # Given a task whose owner is lost
    (partition,) = await segments.partitions(1)
    await segments.store.add_tasks(BUILD, [partition])
    assert await segments.store.claim_task(BUILD, HOUR_MS) == partition

    # When its lease has half passed, then nobody gets it; once it is over, one does
    await segments.passes(HOUR_MS // 2)
    assert await segments.store.claim_task(BUILD, HOUR_MS) is None
    await segments.passes(HOUR_MS // 2)
    assert await segments.store.claim_task(BUILD, HOUR_MS) == partition
    assert await segments.store.claim_task(BUILD, HOUR_MS) is None


async def test_tasks_go_with_their_topic(segments: Segments) -> None:
    # Given a task of a topic that is deleted, and one of another
    (gone,) = await segments.partitions(1)
    (kept,) = await segments.partitions(1)
    await segments.store.add_tasks(BUILD, [gone, kept])
    await segments.store.delete_topic(gone.topic_id)

    # When all of it is purged, then the other's is left
    await segments.purge()
    assert (await segments.store.backlog())["build"] == 1
    assert await segments.store.claim_task(BUILD, HOUR_MS) == kept


async def test_compaction_is_told_since_when_something_may_be_dirty(segments: Segments) -> None:
    # Given three built segments, the second without a timestamp
    (partition,) = await segments.partitions(1)
    for timestamp_ms in (20, -1, 1 << 50):
        await segments.write(partition, timestamp_ms=timestamp_ms)
        await segments.build(partition, rows=1)

    # Then nothing is known as long as there was no compaction
    assert (await cleanable(segments, partition)).dirty_since_ms == 0

    # When a row was compacted by a round that has not come to its end, then neither
    swap = await segments.swap(partition, (await segments.rows(partition))[:1], length=10)
    assert await segments.store.replace_segments(replace(swap, compacts=True))
    assert (await cleanable(segments, partition)).dirty_since_ms == 0

    # When there was one that was cut short, then neither
    await segments.store.set_compacted(partition, 0, cleaned_ms=None)
    assert (await cleanable(segments, partition)).dirty_since_ms == 0

    # When one has left out only what is younger than some time, then what is left tells of itself,
    # or is younger
    await segments.store.set_compacted(partition, 0, cleaned_ms=30)
    assert (await cleanable(segments, partition)).dirty_since_ms == 20
    await segments.store.set_compacted(partition, 10, cleaned_ms=None)
    assert (await cleanable(segments, partition)).dirty_since_ms == 30

    # And that never moves back
    await segments.store.set_compacted(partition, 10, cleaned_ms=25)
    assert (await cleanable(segments, partition)).dirty_since_ms == 30


async def test_no_compaction_was_later_than_now(segments: Segments) -> None:
    # Given a compaction by a clock that was ahead
    (partition,) = await segments.partitions(1)
    store = segments.store
    await store.set_compacted(partition, 0, cleaned_ms=await store.clock_ms())
    await segments.passes(-HOUR_MS)
    now_ms = await store.clock_ms()
    assert (await cleanable(segments, partition)).dirty_since_ms > now_ms + HOUR_MS // 2

    # When there are others, then they were just now
    for cleaned_ms in (None, now_ms + 2 * HOUR_MS):
        await store.set_compacted(partition, 0, cleaned_ms=cleaned_ms)
        found = await cleanable(segments, partition)
        assert now_ms <= found.dirty_since_ms <= await store.clock_ms()


async def test_compaction_is_told_what_is_dirty(segments: Segments) -> None:
    # Given three built segments, a row that is not, and a partition with none
    partition, empty = await segments.partitions(2)
    for timestamp_ms in (40, 30, 20, 10):
        await segments.write(partition, timestamp_ms=timestamp_ms)
    for length in (1000, 200, 50):
        await segments.build(partition, rows=1, length=length)

    # Then all that is built is dirty
    missing = Partition(partition.topic_id, 9)
    found = await segments.store.cleanable_ranges([missing, partition, empty])
    assert {each.partition: each for each in found} == {
        partition: CleanableRange(
            partition=partition,
            log_start_offset=0,
            compacted_offset=0,
            end_offset=30,
            clean_size=0,
            dirty_size=1250,
            dirty_since_ms=0,
        ),
        empty: CleanableRange(
            partition=empty,
            log_start_offset=0,
            compacted_offset=0,
            end_offset=0,
            clean_size=0,
            dirty_size=0,
            dirty_since_ms=0,
        ),
    }

    # When some of it was compacted, then the rest is dirty
    await segments.store.set_compacted(partition, 20, cleaned_ms=None)
    one = await cleanable(segments, partition)
    assert (one.compacted_offset, one.clean_size, one.dirty_size) == (20, 1200, 50)

    # And it never was compacted less far; of a partition that is gone, nothing is noted
    await segments.store.set_compacted(partition, 10, cleaned_ms=None)
    await segments.store.set_compacted(missing, 10, cleaned_ms=None)
    assert (await cleanable(segments, partition)).compacted_offset == 20

    # And what was deleted is neither
    await segments.store.delete_records({partition: 10})
    one = await cleanable(segments, partition)
    assert (one.log_start_offset, one.clean_size, one.dirty_size) == (10, 200, 50)


async def test_compaction_ends_before_open_transactions(segments: Segments) -> None:
    # Given a segment of stable records, and one of an open transaction's
    (partition,) = await segments.partitions(1)
    await segments.write(partition)
    await segments.build(partition, length=70)
    producer = await segments.transactions.producer()
    assert await segments.transactions.send(producer, partition) == 10
    await segments.build(partition, length=30)

    # Then compaction may go to the first of those; and further when it has ended
    assert (await cleanable(segments, partition)).end_offset == 10
    await segments.transactions.goes_on(producer)
    assert (await cleanable(segments, partition)).end_offset == 20
    await segments.build(partition)
    assert (await cleanable(segments, partition)).end_offset == 21
