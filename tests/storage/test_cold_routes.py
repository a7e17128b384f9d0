"""A reader that goes on remembers rows of the index, and is right all the same."""

from storage.aborted import MAX_KEPT
from storage.config import MiB
from storage.errors import OffsetOutOfRange
from storage.partition_log import PartitionLog
from storage.reading.read_planner import END, ROUTE_S
from storage.reading.reader import Records
from tests.storage.cold_bench import ColdBench, offsets


async def written(bench: ColdBench) -> PartitionLog:
    """Return a partition of 64 rows of the writer, with two batches each, all of them cold."""
    (log,) = await bench.create()
    for _ in range(64):
        await bench.write([log], batches=2)
    bench.restart()
    log.high_watermark = 128
    return log


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
    log = await written(bench)
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
    log = await written(bench)
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
    log = await written(bench)
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
    log = await written(bench)
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
