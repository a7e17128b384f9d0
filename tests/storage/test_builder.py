"""The builder over a log in memory: what it takes, what it merges, what it leaves alone."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from protocol.batch import read_header
from protocol.compression import Codec
from protocol.ids import Partition
from storage.config import KiB
from storage.metadata.segments import SegmentSwap
from storage.metadata.tasks import TaskKind
from storage.segment import parse_header
from storage.upkeep.segment_rows import read_index
from storage.upkeep.task_lease import LEASE_MS
from tests.storage.builder_model import HOUR_MS, POLICY
from tests.storage.builder_world import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World.open() as opened:
        yield opened


async def test_rows_become_one_segment_that_reads_the_same(world: World) -> None:
    # Given rows of several objects, a transaction that was aborted, and one that is still open
    await world.produce(b"one", b"two")
    await world.produce_in_transaction("aborted", b"three")
    await world.produce_in_transaction("open", b"four")
    await world.end_transaction("aborted", committed=False)
    assert len(await world.rows()) == 4

    # When they are built
    result = await world.builder().build(world.partition)

    # Then one row has taken their place, and it says what was aborted
    assert result is not None
    (row,) = await world.rows()
    assert (row.path, row.start_offset, row.end_offset) == (result.path, 0, 8)
    assert row.path == "topics/orders/partitions/0/segments/00000000-00000008.seg"
    header = await world.objects.get(row.path, 0, row.start)
    assert parse_header(header) == (world.partition.topic_id, 0)
    index = await read_index(world.objects, row)
    assert [(each.first_offset, each.last_offset) for each in index.aborted] == [(4, 8)]
    assert (index.topic_name, index.configs) == (POLICY.name, POLICY.configs)
    await world.check()

    # And after the sweeper the segment is the only object, and there is nothing left to build
    await world.sweep()
    assert await world.stored() == {row.path}
    assert await world.builder().build(world.partition) is None


async def test_little_is_left_alone_until_it_is_much_many_or_old(world: World) -> None:
    # Given a row
    builder = world.builder()
    await world.produce(b"one")

    # When a round looks at it, then it is not due
    await builder.plan()
    assert not await builder.work_once()

    # But once it is an hour old, it is
    world.now_ms += HOUR_MS
    await builder.plan()
    assert await builder.work_once()
    assert not await builder.work_once()
    assert [row.end_offset for row in await world.rows() if row.index_length] == [1]

    # And so is any number of rows above the limit
    world.config = replace(world.config, segment_rows=3)
    builder = world.builder()
    for number in range(3):
        await world.produce(b"%d" % number)
    await builder.plan()
    assert await builder.work_once()
    assert all(row.index_length for row in await world.rows())

    # And as many bytes as make a segment
    world.config = replace(world.config, segment_rows=1000, segment_bytes=64 * KiB)
    builder = world.builder()
    await world.produce(bytes(40_000))
    await builder.plan()
    assert await builder.work_once()
    assert all(row.index_length for row in await world.rows())
    await world.check()


async def test_the_smaller_of_the_topics_and_the_brokers_segment_size_counts(world: World) -> None:
    # Given a topic with smaller segments than the broker's, and rows of half of its size
    world.policy = replace(POLICY, segment_bytes=20_000)
    for _ in range(5):
        await world.produce(bytes(4_500))

    # When it is built while more is due
    builder = world.builder()
    await builder.plan()
    assert await builder.work_once()

    # Then each segment has two rows, and what makes none waits
    assert [row.end_offset for row in await world.rows() if row.index_length] == [3, 7]
    assert builder.counts.segments == 2
    assert builder.counts.rows == 4
    await world.check()


async def test_a_row_above_the_segment_size_is_a_segment_of_its_own(world: World) -> None:
    # Given a row that is larger than a segment, between small ones
    world.policy = replace(POLICY, segment_bytes=10_000)
    await world.produce(b"small")
    await world.produce(bytes(8_000), bytes(8_000))
    await world.produce(b"small")

    # When all of it is built
    builder = world.builder()
    while await builder.build(world.partition) is not None:
        pass

    # Then it was not put together with the others
    assert [row.end_offset for row in await world.rows()] == [1, 5, 7]
    await world.check()


async def test_small_segments_are_merged_and_every_byte_is_written_a_few_times(
    world: World,
) -> None:
    # Given a partition with little traffic, which is built again and again
    builder = world.builder()
    written = 0
    for _ in range(64):
        await world.produce(bytes(500))
        assert await builder.build(world.partition) is not None
        written = sum(row.length for row in await world.rows())

    # Then there are few segments, and each byte was written at most log2(64) + 1 times
    assert len(await world.rows()) <= 7
    assert builder.counts.size < 8 * written
    await world.check()


async def test_segments_that_are_clean_are_not_merged_with_what_is_not(world: World) -> None:
    # Given a compacted topic: a segment that was compacted, and one that was not
    world.policy = replace(POLICY, compact=True)
    builder = world.builder()
    await world.produce(b"clean")
    await builder.build(world.partition)
    await world.metadata.set_compacted(world.partition, 2, cleaned_ms=None)
    await world.produce(b"dirty")
    await builder.build(world.partition)

    # When more is built
    await world.produce(b"dirty", b"dirty")
    await builder.build(world.partition)

    # Then it is merged with the dirty one only
    assert [(row.start_offset, row.end_offset) for row in await world.rows()] == [(0, 1), (2, 7)]


async def test_batches_get_the_codec_of_the_topic(world: World) -> None:
    # Given batches of several codecs, and a marker
    await world.produce(bytes(2_000), codec=Codec.ZSTD)
    await world.produce(bytes(2_000))
    await world.produce_in_transaction("t", bytes(2_000))
    await world.end_transaction("t", committed=True)

    # When the topic asks for lz4
    world.policy = replace(POLICY, codec=Codec.LZ4, compression_level=9)
    await world.builder().build(world.partition)

    # Then all but the marker have it, and they say the same
    batches = [batch for part in await world.parts() for batch in part.batches]
    codecs = [read_header(batch).codec for batch in batches]
    assert codecs == [Codec.LZ4, Codec.LZ4, Codec.LZ4, Codec.NONE]
    await world.check()


async def test_a_log_that_begins_inside_a_row_is_built_with_that_row(world: World) -> None:
    await world.produce(b"one", b"two", b"three")
    await world.metadata.delete_records({world.partition: 3})
    result = await world.builder().build(world.partition)
    assert result is not None
    assert (result.start_offset, result.end_offset) == (0, 5)
    await world.check()


async def test_a_segment_keeps_telling_of_aborted_records_before_the_log_start(
    world: World,
) -> None:
    # Given a small segment with aborted records, before which the log does not begin any more
    await world.produce_in_transaction("t", b"aborted")
    await world.end_transaction("t", committed=False)
    await world.produce(b"one")
    builder = world.builder()
    await builder.build(world.partition)
    (row,) = await world.rows()
    aborted = (await read_index(world.objects, row)).aborted
    assert [(each.first_offset, each.last_offset) for each in aborted] == [(0, 2)]
    await world.metadata.delete_records({world.partition: 3})
    while await world.metadata.purge(1000):
        pass

    # When it is merged with what follows, in which more is aborted
    await world.produce(b"two", b"three", b"four")
    await world.produce_in_transaction("t", b"aborted, too")
    await world.end_transaction("t", committed=False)
    await builder.build(world.partition)

    # Then the new one tells of all that it has
    (row,) = await world.rows()
    aborted = (await read_index(world.objects, row)).aborted
    assert [(each.first_offset, each.last_offset) for each in aborted] == [(0, 2), (11, 13)]


async def test_a_partition_that_is_gone_is_no_work(world: World) -> None:
    # Given a task for a topic that is deleted before a worker comes to it
    await world.produce(b"one")
    builder = world.builder()
    await world.metadata.add_tasks(TaskKind.BUILD, [world.partition])
    await world.metadata.delete_topic(world.partition.topic_id)

    # Then it is done quietly, also if the worker does not know yet that the topic is gone
    assert await builder.work_once()
    assert not await builder.work_once()
    assert await builder.build(world.partition) is None


async def test_a_long_backlog_takes_turns_with_others(world: World) -> None:
    # Given a partition with many segments' worth of rows, and time that passes with each
    world.policy = replace(POLICY, segment_bytes=1_000)
    for _ in range(5):
        await world.produce(bytes(500))
    inner = world.metadata.replace_segments

    async def slow(swap: SegmentSwap) -> bool:
        world.now_ms += 40_000
        return await inner(swap)

    world.metadata.replace_segments = slow  # type: ignore[method-assign]
    builder = world.builder()
    await builder.plan()

    # When a worker has had its turn, then it is at the end of the queue again
    assert await builder.work_once()
    assert builder.counts.segments == 2
    assert await builder.work_once()
    assert builder.counts.segments == 4
    assert await builder.work_once()
    assert not await builder.work_once()
    assert builder.counts.segments == 5


async def test_all_partitions_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given more partitions than one page of the index has
    monkeypatch.setattr("storage.upkeep.builder.PAGE", 2)
    async with World.open(partition_count=5) as world:
        for index in (0, 3, 4):
            await world.produce(b"x", index=index)
        world.now_ms += HOUR_MS

        # When a round has planned, then there is a task for each that is due
        builder = world.builder()
        await builder.plan()
        tasks: list[Partition] = []
        while (task := await world.metadata.claim_task(TaskKind.BUILD, LEASE_MS)) is not None:
            tasks.append(task)
        assert sorted(task.index for task in tasks) == [0, 3, 4]
