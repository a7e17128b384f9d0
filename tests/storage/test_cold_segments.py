"""Reads of built segments: few GETs, memory in its limit, progress over gaps, nothing skipped."""

import asyncio
import gc
import tracemalloc
from collections import Counter

import pytest

from storage.aborted import MAX_KEPT
from storage.config import MiB
from storage.errors import CorruptObject, ObjectMissing, OffsetOutOfRange
from storage.partition_log import PartitionLog
from storage.reading.read_planner import END, ROUTE_S, ColdRead
from storage.reading.reader import ANSWER_BYTES, Records
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


async def test_memory_stays_within_its_limit_whatever_is_read_ahead() -> None:
    # Given segments of six partitions, and a cache that is small for them
    bench = ColdBench(max_bytes=10 * MiB)
    logs = await bench.create(6)
    for log in logs:
        await bench.write([log], batches=48)
        await bench.build(log)
    bench.restart()

    # When consumers go through all of them at the same time
    replays = [asyncio.create_task(bench.replay(log, max_bytes=MiB // 2)) for log in logs]
    most = 0
    while not all(replay.done() for replay in replays):
        await asyncio.sleep(0)
        most = max(most, bench.blocks._size)

    # Then all was read, and never was there much more than the limit in memory
    assert [replay.result() for replay in replays] == [list(range(48))] * 6
    assert most <= 10 * MiB
    await bench.close()


async def test_a_fetch_of_much_gets_some_of_it_and_all_get_their_turn() -> None:
    # Given 20 partitions, and fetches that want 1 MiB of each
    bench = ColdBench()
    logs = await bench.create(20)
    for log in logs:
        await bench.write([log], batches=4)
    bench.restart()
    reads = [ColdRead(log, 0, MiB) for log in logs]

    # When a client asks for all of them again and again
    served: Counter[int] = Counter()
    for _ in range(500):
        results = await bench.reader.read(reads)
        sizes = [len(offsets(result)) for result in results]
        assert 0 < sum(sizes) * MiB // 4 <= ANSWER_BYTES
        served.update(number for number, size in enumerate(sizes) if size)
        if len(served) == len(logs):
            break

    # Then none is left out
    assert len(served) == len(logs)
    await bench.close()


async def test_clients_that_alternate_leave_out_none_of_each_others_partitions() -> None:
    # Given two clients of two partitions each, of which an answer has room for one
    bench = ColdBench()
    logs = await bench.create(4)
    for log in logs:
        await bench.write([log], batches=16)
    bench.restart()
    clients = [[ColdRead(log, 0, ANSWER_BYTES) for log in two] for two in (logs[:2], logs[2:])]

    # When one asks, and then the other, again and again
    served: set[PartitionLog] = set()
    for _ in range(60):
        for reads in clients:
            results = await bench.reader.read(reads)
            found = [read.log for read, one in zip(reads, results, strict=True) if offsets(one)]
            assert len(found) == 1
            served.update(found)

    # Then each partition had its turn
    assert served == set(logs)
    await bench.close()


async def test_tiny_rows_take_no_more_memory_than_large_ones() -> None:
    # Given a cache of 1 MiB, and many rows of the writer's that hold next to nothing
    bench = ColdBench(max_bytes=MiB)
    (log,) = await bench.create()
    for _ in range(1_500):
        await bench.write([log], batches=1, batch_bytes=80)
    bench.restart()

    # When all of them are read
    gc.collect()
    tracemalloc.start()
    try:
        assert len(await bench.replay(log)) == 1_500
        gc.collect()
        in_use, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # Then what is kept of them is within the limit, with all that is around it
    assert len(bench.store.gets) == 1_500
    assert bench.blocks._size <= MiB
    assert in_use < 1.2 * MiB
    await bench.close()


async def test_a_fetch_of_many_small_partitions_gets_all_of_them() -> None:
    bench = ColdBench()
    logs = await bench.create(100)
    await bench.write(logs, batches=2, batch_bytes=5_000)
    bench.restart()
    results = await bench.reader.read([ColdRead(log, 0, MiB) for log in logs])
    assert [offsets(result) for result in results] == [[0, 1]] * 100
    assert len(bench.store.gets) == 1
    await bench.close()


async def test_a_reader_that_goes_on_seldom_asks_the_index() -> None:
    # Given a segment, and rows of the writer behind it
    bench = ColdBench()
    (log,) = await bench.create()
    for _ in range(16):
        await bench.write([log], batches=16)
    await bench.build(log, rows=8)
    bench.restart()
    log.high_watermark = 256

    # When all 64 MiB are read, 1 MiB at a time
    found = await bench.replay(log)

    # Then each batch came once, and most reads went along the rows that were known
    assert found == list(range(256))
    assert bench.metadata.lookups <= 16
    await bench.close()


async def test_rows_that_were_replaced_are_found_where_they_are_now() -> None:
    # Given a reader that goes through rows of the writer, and a cache that keeps little
    bench = ColdBench(max_bytes=2 * MiB)
    (log,) = await bench.create()
    for _ in range(64):
        await bench.write([log], batches=2)
    bench.restart()
    log.high_watermark = 128
    for offset in (0, 4, 8):
        assert offsets(await bench.read(log, offset)) == list(range(offset, offset + 4))

    # When a segment takes their place, and their bytes go
    rows = await bench.metadata.segments_from(log.partition, 0, 100)
    await bench.build(log)
    bench.store.lost.update(row.path for row in rows)

    # Then it goes on as if nothing had happened
    assert await bench.replay(log, 12) == list(range(12, 128))
    await bench.close()


async def test_what_retention_removes_is_soon_gone_for_a_reader_that_goes_on() -> None:
    # Given a reader that goes through a partition
    bench = ColdBench()
    (log,) = await bench.create()
    for _ in range(64):
        await bench.write([log], batches=2)
    bench.restart()
    log.high_watermark = 128
    assert offsets(await bench.read(log, 0)) == [0, 1, 2, 3]
    assert offsets(await bench.read(log, 4)) == [4, 5, 6, 7]

    # When the log begins later, which another process has seen to
    await bench.metadata.delete_records({log.partition: 100})
    await bench.metadata.purge(1_000)
    bench.now_s += ROUTE_S + 0.1

    # Then what it asks for next is not there any more
    assert isinstance(await bench.read(log, 8), OffsetOutOfRange)
    assert offsets(await bench.read(log, 100)) == [100, 101, 102, 103]
    await bench.close()


async def test_what_went_with_its_bytes_is_out_of_range_and_not_passed_over() -> None:
    # Given a reader that goes along rows that were named before
    bench = ColdBench(max_bytes=2 * MiB)
    (log,) = await bench.create()
    for _ in range(64):
        await bench.write([log], batches=2)
    bench.restart()
    log.high_watermark = 128
    for offset in (0, 4, 8):
        assert offsets(await bench.read(log, offset)) == list(range(offset, offset + 4))

    # When the log begins later, and the bytes before that go at once
    rows = await bench.metadata.segments_from(log.partition, 0, 100)
    await bench.metadata.delete_records({log.partition: 100})
    await bench.metadata.purge(1_000)
    bench.store.lost.update(row.path for row in rows if row.end_offset < 100)

    # Then it is told so: it gets what memory has, and never what is behind the hole
    offset, found = 12, await bench.read(log, 12)
    while isinstance(found, Records):
        assert offsets(found)[0] == offset < 100
        offset = offsets(found)[-1] + 1
        found = await bench.read(log, offset)
    assert isinstance(found, OffsetOutOfRange)
    await bench.close()


async def test_a_route_is_not_taken_where_only_the_index_knows_what_was_aborted() -> None:
    # Given a partition with more aborted transactions than memory keeps, and two readers of it
    bench = ColdBench()
    (log,) = await bench.create()
    for _ in range(64):
        await bench.write([log], batches=2)
    bench.restart()
    log.high_watermark = 128
    log.aborted_count = MAX_KEPT + 1
    for end_offset in (END, 128):
        for offset in (0, 4):
            await bench.read(log, offset, end_offset=end_offset)

        # When each goes on
        before = bench.metadata.lookups
        assert offsets(await bench.read(log, 8, end_offset=end_offset)) == [8, 9, 10, 11]

        # Then only the one of committed records asks the index
        assert bench.metadata.lookups - before == (0 if end_offset == END else 1)
    await bench.close()
