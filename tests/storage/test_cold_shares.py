"""Cold reads share what there is: memory has a limit, and everybody who reads has a turn."""

import asyncio
import gc
import tracemalloc
from collections import Counter

from storage.config import MiB
from storage.partition_log import PartitionLog
from storage.reading.read_planner import ColdRead
from storage.reading.reader_turns import ANSWER_BYTES, MAX_GETS, MAX_LOOKUPS
from tests.storage.cold_bench import ColdBench, offsets


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


async def test_a_fetch_of_many_small_partitions_gets_all_of_them() -> None:
    bench = ColdBench()
    logs = await bench.create(100)
    await bench.write(logs, batches=2, batch_bytes=5_000)
    bench.restart()
    results = await bench.reader.read([ColdRead(log, 0, MiB) for log in logs])
    assert [offsets(result) for result in results] == [[0, 1]] * 100
    assert len(bench.store.gets) == 1
    await bench.close()


async def test_a_fetch_of_a_byte_of_everything_holds_no_more_than_others_do() -> None:
    # Given 64 partitions of a block of 1 MiB each, and a cache that is small for them
    bench = ColdBench(max_bytes=10 * MiB)
    logs = await bench.create(64)
    for log in logs:
        await bench.write([log], batches=16, batch_bytes=MiB // 16)
        await bench.build(log)
    bench.restart()

    # When a client asks for a byte of each, again and again
    served: Counter[int] = Counter()
    most = 0
    for _ in range(500):
        fetch = asyncio.create_task(bench.reader.read([ColdRead(log, 0, 1) for log in logs]))
        while not fetch.done():
            await asyncio.sleep(0)
            most = max(most, bench.blocks._size)
        served.update(at for at, one in enumerate(fetch.result()) if offsets(one))
        if len(served) == len(logs):
            break

    # Then the limit holds, and every partition has its turn
    assert most <= 10 * MiB
    assert len(served) == len(logs)
    await bench.close()


async def test_ranges_with_little_between_them_are_one_get() -> None:
    # Given 100 objects of the writer with a little of 101 partitions each
    bench = ColdBench()
    logs = await bench.create(101)
    for _ in range(100):
        await bench.write(logs, batches=1, batch_bytes=400)
    bench.restart()

    # When a client asks for every second partition
    results = await bench.reader.read([ColdRead(log, 0, MiB) for log in logs[::2]])

    # Then an object is one GET, and all partitions get what they want
    assert [offsets(result) for result in results] == [list(range(100))] * 51
    assert len(bench.store.gets) == 100
    await bench.close()


async def test_a_fetch_leaves_places_to_others_however_many_gets_it_would_take() -> None:
    # Given ten partitions, and 30 objects of the writer for each of them
    bench = ColdBench()
    logs = await bench.create(10)
    for log in logs:
        for _ in range(30):
            await bench.write([log], batches=1, batch_bytes=400)
    bench.restart()

    # When a client asks for all of them, again and again
    served: Counter[int] = Counter()
    for _ in range(500):
        bench.restart()
        results = await bench.reader.read([ColdRead(log, 0, MiB) for log in logs])
        assert 0 < len(bench.store.gets) <= MAX_GETS
        served.update(at for at, one in enumerate(results) if offsets(one))
        if len(served) == len(logs):
            break

    # Then it gets some of them at a time, and each has its turn
    assert len(served) == len(logs)
    await bench.close()


async def test_a_partition_that_is_named_any_number_of_times_is_looked_up_a_few_times() -> None:
    # Given a partition of ten rows
    bench = ColdBench()
    (log,) = await bench.create()
    for _ in range(10):
        await bench.write([log], batches=1, batch_bytes=400)
    bench.restart()

    # When one fetch names it 2,000 times
    results = await bench.reader.read([ColdRead(log, at % 10, 1) for at in range(2_000)])

    # Then so many get the batch they want as there are lookups in a fetch
    served = [at for at, one in enumerate(results) if offsets(one)]
    assert [offsets(results[at]) for at in served] == [[at % 10] for at in served]
    assert len(served) == MAX_LOOKUPS
    await bench.close()
