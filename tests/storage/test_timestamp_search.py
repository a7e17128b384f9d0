"""Records by time in built segments: only the blocks that may hold them are read."""

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
