"""Reads of built segments: few GETs, progress over gaps, nothing skipped."""

import asyncio
from collections import Counter

import pytest

from storage.config import MiB
from storage.errors import CorruptObject, ObjectMissing
from storage.reading.read_planner import ColdRead
from storage.reading.reader import Records
from tests.storage.cold_bench import ColdBench, offsets


async def test_a_replay_of_two_segments_takes_18_gets_for_each_and_reads_all() -> None:
    # Given two segments of 64 MiB, and nothing in memory
    bench = ColdBench()
    (log,) = await bench.create()
    for _ in range(16):
        await bench.write([log], batches=32)
    paths = [await bench.build(log, rows=8), await bench.build(log, rows=8)]
    bench.restart()

    # When a consumer reads them from one end to the other
    found = await bench.replay(log)

    # Then every batch came once, and each segment took 16 GETs and one for its index
    assert found == list(range(512))
    gets = Counter(path for path, _, _ in bench.store.gets)
    assert set(gets) == set(paths)
    assert gets[paths[0]] <= 18, "one more, because the first read is not known to go on"
    assert gets[paths[1]] <= 17
    assert sum(length for _, _, length in bench.store.gets) < 129 * MiB, "nothing is read twice"
    assert bench.blocks._size <= 64 * MiB
    await bench.close()


async def test_readers_of_the_same_blocks_share_their_gets() -> None:
    # Given a segment, and a store that takes its time
    bench = ColdBench()
    (log,) = await bench.create()
    await bench.write([log], batches=16)
    await bench.build(log)
    bench.restart()
    bench.store.held.clear()

    # When many read at once
    reads = [asyncio.create_task(bench.read(log, 5)) for _ in range(30)]
    while not bench.store.gets:
        await asyncio.sleep(0)
    bench.store.held.set()
    results = await asyncio.gather(*reads)

    # Then one GET for the index and one for the blocks served them all
    assert all(offsets(result)[0] == 5 for result in results)
    assert len(bench.store.gets) == 2
    await bench.close()


async def test_only_a_reader_that_goes_on_reads_ahead() -> None:
    # Given a segment
    bench = ColdBench()
    (log,) = await bench.create()
    await bench.write([log], batches=48)
    await bench.build(log)
    bench.restart()

    # When single records are read here and there
    for offset in (40, 3, 20):
        await bench.read(log, offset, 1)

    # Then only their blocks were fetched
    assert sum(length for _, _, length in bench.store.gets) < 3.1 * MiB
    await bench.close()


async def test_ranges_of_one_object_that_several_partitions_need_are_one_get() -> None:
    # Given an object of the writer with runs of eight partitions side by side
    bench = ColdBench()
    logs = await bench.create(8)
    await bench.write(logs, batches=2, batch_bytes=10_000)
    bench.restart()

    # When a fetch wants all of them
    results = await bench.reader.read([ColdRead(log, 0, MiB) for log in logs])

    # Then one GET brings them
    assert [offsets(result) for result in results] == [[0, 1]] * 8
    assert len(bench.store.gets) == 1
    await bench.close()


@pytest.mark.parametrize("is_sequential", [False, True])
async def test_reads_make_progress_over_gaps_of_any_size(is_sequential: bool) -> None:
    # Given two segments of which compaction left little: whole blocks, and the end, are gaps
    bench = ColdBench()
    (log,) = await bench.create()
    for _ in range(2):
        await bench.write([log], batches=40)
    kept = {1, 2, 30, 44, 78}
    await bench.build(log, rows=1, keep=lambda offset: offset in kept)
    await bench.build(log, rows=1, keep=lambda offset: offset in kept)
    bench.restart()

    # When they are read, or asked for each offset, then the batch is the one that holds it or next
    if is_sequential:
        assert await bench.replay(log) == sorted(kept)
    for offset in range(79):
        found = offsets(await bench.read(log, offset, 1))
        assert found == [min(one for one in kept if one >= offset)]
    assert offsets(await bench.read(log, 79)) == []
    assert offsets(await bench.read(log, 31, end_offset=44)) == []
    assert offsets(await bench.read(log, 29, end_offset=44)) == [30]
    await bench.close()


async def test_a_segment_without_records_is_passed_over_by_its_empty_batch() -> None:
    # Given a segment of which nothing is left, between two others
    bench = ColdBench()
    (log,) = await bench.create()
    for _ in range(3):
        await bench.write([log], batches=4)
    for number in range(3):
        await bench.build(log, rows=1, keep=lambda _, number=number: number != 1)  # type: ignore[misc]
    bench.restart()

    # When all is read, then an empty batch tells how far there is nothing
    result = await bench.read(log, 4, 1)
    assert offsets(result) == [4]
    assert isinstance(result, Records)
    assert len(result.batches[0]) == 61
    assert offsets(await bench.read(log, 8, 1)) == [8]
    await bench.close()


async def test_segments_and_objects_of_the_writer_are_read_as_one_log() -> None:
    bench = ColdBench()
    (log,) = await bench.create()
    for _ in range(4):
        await bench.write([log], batches=6)
    await bench.build(log, rows=2)
    bench.restart()
    assert await bench.replay(log) == list(range(24))
    assert await bench.replay(log, 11, 300_000) == list(range(11, 24))
    await bench.close()


async def test_what_was_swapped_meanwhile_is_found_where_it_is_now() -> None:
    # Given a fetch that has asked the index for rows of the writer's
    bench = ColdBench()
    (log,) = await bench.create()
    await bench.write([log], batches=8)
    bench.restart()
    bench.store.held.clear()
    reading = asyncio.create_task(bench.read(log, 3, 1))
    while not bench.store.gets:
        await asyncio.sleep(0)

    # When a segment takes their place, and their bytes go, before its GET is served
    (row,) = await bench.metadata.segments_from(log.partition, 0, 10)
    held, bench.store.held = bench.store.held, asyncio.Event()
    bench.store.held.set()
    await bench.build(log)
    bench.store.lost.add(row.path)
    held.set()

    # Then it is planned again, and served from the segment
    assert offsets(await reading) == [3]
    await bench.close()


async def test_what_the_index_names_and_the_store_has_not_is_an_error() -> None:
    # Given a segment whose bytes are lost, and an object behind it
    bench = ColdBench()
    (log,) = await bench.create()
    await bench.write([log], batches=4)
    path = await bench.build(log)
    await bench.write([log], batches=4)
    bench.restart()
    bench.store.lost.add(path)

    # When it is read, then it is missing each time, and never skipped
    for _ in range(2):
        assert isinstance(await bench.read(log, 2), ObjectMissing)
    assert offsets(await bench.read(log, 4)) == [4, 5, 6, 7]
    bench.store.lost.clear()
    assert offsets(await bench.read(log, 2))[:2] == [2, 3]
    await bench.close()


async def test_a_damaged_block_fails_alone() -> None:
    # Given a segment with damage in its second block
    bench = ColdBench()
    (log,) = await bench.create()
    await bench.write([log], batches=16)
    path = await bench.build(log)
    bench.store.damage(path, 5 * MiB // 4)
    bench.restart()

    # When all of it is read, then what is before and behind the block is served
    assert offsets(await bench.read(log, 0, 4 * MiB)) == [0, 1, 2, 3]
    assert isinstance(await bench.read(log, 4, 4 * MiB), CorruptObject)
    assert offsets(await bench.read(log, 8, 4 * MiB)) == list(range(8, 16))
    await bench.close()


async def test_a_damaged_index_is_an_error() -> None:
    bench = ColdBench()
    (log,) = await bench.create()
    await bench.write([log], batches=4)
    path = await bench.build(log)
    (row,) = await bench.metadata.segments_from(log.partition, 0, 1)
    bench.store.damage(path, row.start + row.length + 3)
    bench.restart()
    assert isinstance(await bench.read(log, 0), CorruptObject)
    await bench.close()
