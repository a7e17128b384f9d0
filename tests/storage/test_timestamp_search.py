"""Records by time in built segments: only the blocks that may hold them are read."""

import asyncio

import pytest

from storage.config import MiB
from tests.storage.cold_bench import ColdBench


async def test_a_timestamp_is_found_by_its_block_alone() -> None:
    # Given a segment of 12 blocks whose records are a second apart
    bench = ColdBench()
    (log,) = await bench.create()
    await bench.write([log], batches=48, timestamps_ms=lambda number: number * 1_000)
    await bench.build(log)
    bench.restart()

    # When records are looked for by time
    found = [
        await bench.timestamps.first_at_or_after(log.partition, wanted_ms, 0)
        for wanted_ms in (29_001, 30_000, 0)
    ]
    latest = await bench.timestamps.latest(log.partition, 0)

    # Then each is the first at or after it, and three blocks and the index were read
    assert [one and (one.offset, one.timestamp_ms) for one in found] == [
        (30, 30_000),
        (30, 30_000),
        (0, 0),
    ]
    assert latest is not None
    assert (latest.offset, latest.timestamp_ms) == (47, 47_000)
    assert len(bench.store.gets) == 4
    assert sum(length for _, _, length in bench.store.gets) < 3.1 * MiB
    assert await bench.timestamps.first_at_or_after(log.partition, 47_001, 0) is None
    await bench.close()


async def test_the_search_goes_on_where_the_log_begins_later() -> None:
    # Given two segments in which the same times come again, and a log that begins in the first
    bench = ColdBench()
    (log,) = await bench.create()
    for _ in range(2):
        await bench.write([log], batches=8, timestamps_ms=lambda number: 1_000 * (8 - number))
        await bench.build(log)
    bench.restart()

    # When a time is looked for that only records before the start have, then the next ones count
    found = await bench.timestamps.first_at_or_after(log.partition, 7_000, 3)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (8, 8_000)
    await bench.close()


async def test_a_search_that_comes_too_late_asks_the_index_again() -> None:
    # Given a row that is swapped between the answer of the index and the GET
    bench = ColdBench()
    (log,) = await bench.create()
    await bench.write([log], batches=8, timestamps_ms=lambda number: number)
    (row,) = await bench.metadata.segments_from(log.partition, 0, 1)
    bench.restart()
    find = bench.metadata.find_timestamp
    asked = 0

    async def find_then_swap(*arguments: int) -> object:
        nonlocal asked
        found = await find(*arguments)  # type: ignore[arg-type]
        asked += 1
        if asked == 1:
            await bench.build(log)
            bench.store.lost.add(row.path)
        return found

    bench.metadata.find_timestamp = find_then_swap  # type: ignore[assignment, method-assign]

    # When a record is looked for, then it is found in the segment
    found = await bench.timestamps.first_at_or_after(log.partition, 5, 0)
    assert found is not None
    assert found.offset == 5
    await bench.close()


async def test_rows_may_be_swapped_one_after_the_other_under_a_search() -> None:
    # Given two rows, each of which is swapped between the answer of the index and its GET
    bench = ColdBench()
    (log,) = await bench.create()
    for _ in range(2):
        await bench.write([log], batches=8, timestamps_ms=lambda number: 1_000 * (8 - number))
    rows = await bench.metadata.segments_from(log.partition, 0, 2)
    bench.restart()
    find = bench.metadata.find_timestamp

    async def find_then_swap(*arguments: int) -> object:
        found = await find(*arguments)  # type: ignore[arg-type]
        if found in rows:
            await bench.build(log, rows=1)
            bench.store.lost.add(found.path)
        return found

    bench.metadata.find_timestamp = find_then_swap  # type: ignore[assignment, method-assign]

    # When the first one has not what is looked for, then it is found in the second one
    found = await bench.timestamps.first_at_or_after(log.partition, 7_000, 3)
    assert found is not None
    assert found.offset == 8
    assert bench.store.lost == {row.path for row in rows}
    await bench.close()


@pytest.mark.parametrize("is_built", [False, True])
async def test_the_latest_record_is_one_that_the_log_still_has(is_built: bool) -> None:
    # Given a row whose times descend from 8 s to 1 s, and rows of 6 s and of 3 s
    bench = ColdBench()
    (log,) = await bench.create()
    for times_ms in (lambda number: 1_000 * (8 - number), lambda _: 6_000, lambda _: 3_000):
        await bench.write([log], batches=8, timestamps_ms=times_ms)
        if is_built:
            await bench.build(log, rows=1)
    bench.restart()

    # When the log begins inside of a row, then what is left of it and the other rows count
    for start_offset, expected in {
        0: (0, 8_000),
        1: (1, 7_000),
        2: (2, 6_000),
        3: (8, 6_000),
        4: (8, 6_000),
        7: (8, 6_000),
        9: (9, 6_000),
        17: (17, 3_000),
    }.items():
        found = await bench.timestamps.latest(log.partition, start_offset)
        assert found is not None
        assert (found.offset, found.timestamp_ms) == expected
    assert await bench.timestamps.latest(log.partition, 24) is None
    await bench.close()


@pytest.mark.parametrize("is_latest_wanted", [False, True])
async def test_searches_of_many_partitions_hold_few_rows_at_a_time(is_latest_wanted: bool) -> None:
    # Given rows of 1 MiB in 30 partitions, and a cache for one of them
    bench = ColdBench(max_bytes=MiB)
    logs = await bench.create(30)
    for log in logs:
        await bench.write([log], batches=4)
    bench.restart()

    # When all of them are searched at the same time
    searches = [
        asyncio.create_task(
            bench.timestamps.latest(log.partition, 0)
            if is_latest_wanted
            else bench.timestamps.first_at_or_after(log.partition, 0, 0)
        )
        for log in logs
    ]
    most = 0
    while not all(search.done() for search in searches):
        await asyncio.sleep(0)
        most = max(most, bench.blocks._size)

    # Then all found their record, and only some rows were in memory
    assert all(
        found is not None and found.offset == 0 for found in [one.result() for one in searches]
    )
    assert most < 9 * MiB
    await bench.close()
