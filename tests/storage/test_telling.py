"""Objects that only tell: within seconds the store has what was acknowledged, at few PUTs more."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from protocol.control_batch import EndMarker
from storage.errors import MetadataUnavailable
from storage.metadata.port import BatchCommit
from storage.objects.port import Buffer
from storage.untold import AGAIN_S, MOST_KEPT, QUIET_S
from storage.wal_index import NOT_APPENDED, WalIndex, parse_index, parse_index_length
from tests.broker.test_put_rate import BATCH, NOW_MS, PUT_S, PutBench, put_bench
from tests.support import virtual_time
from tests.support.appends import append

MARKER = EndMarker(producer_id=7, producer_epoch=3, committed=True, timestamp_ms=NOW_MS)
TOLD_S = QUIET_S + PUT_S + 0.1


def run(scenario: Callable[[PutBench], Awaitable[None]], partitions: int = 2) -> None:
    async def on_bench() -> None:
        async with put_bench(partitions) as bench:
            await scenario(bench)

    virtual_time.run(on_bench())


async def written(bench: PutBench, leader_epoch: int = 0) -> int:
    data = memoryview(bytearray(BATCH))
    outcome = await append(bench.writer, bench.logs[0], data, leader_epoch=leader_epoch)
    return outcome.base_offset


def end(bench: PutBench, offset: int, partition: int = 0) -> None:
    bench.writer.telling.ended(MARKER, {bench.logs[partition].partition: offset})


async def unavailable(paths: Sequence[str]) -> None:
    raise MetadataUnavailable("away")


async def indexes(bench: PutBench) -> list[WalIndex]:
    """Return what objects say of themselves, in their order."""
    found = []
    async for one in bench.store.list("wal/"):
        data = await bench.store.get(one.path, 0, one.size)
        found.append(parse_index(data[-parse_index_length(data) :]))
    return sorted(found, key=lambda index: index.sequence)


async def tellers(bench: PutBench) -> list[WalIndex]:
    """Return those without batches."""
    return [index for index in await indexes(bench) if not index.runs]


def endings(index: WalIndex) -> Sequence[tuple[int, int]]:
    return [(one.partition, one.offset) for one in index.endings]


def test_the_ends_of_transactions_are_told_after_a_few_seconds_by_one_object() -> None:
    async def scenario(bench: PutBench) -> None:
        # Given a writer that knows where its partition ends
        await written(bench)
        await written(bench)
        await asyncio.sleep(TOLD_S)
        before = bench.store.puts

        # When transactions end, one after the other, and nothing else happens
        for offset in (2, 3, 4):
            end(bench, offset)
        end(bench, 0, partition=1)
        await asyncio.sleep(TOLD_S)

        # Then one object without batches tells it
        assert bench.store.puts == before + 1
        (*_, last) = await indexes(bench)
        assert (last.runs, last.topics) == ((), ((bench.logs[0].partition.topic_id, "t"),))
        assert endings(last) == [(0, 2), (0, 3), (0, 4), (1, 0)]
        assert last.endings[0] == (0, 0, 2, 7, 3, True, NOW_MS)

        # And there is no other one, how long ever it stays quiet
        await asyncio.sleep(3600)
        assert bench.store.puts == before + 1

    run(scenario)


def test_what_is_where_it_was_expected_costs_no_put_more() -> None:
    async def scenario(bench: PutBench) -> None:
        # Given a writer that has told where its first batch is, whose offset it did not know
        await written(bench)
        await asyncio.sleep(60)
        assert len(await tellers(bench)) == 1
        before = bench.store.puts

        # When there is a record each minute, then each is one PUT
        for _ in range(10):
            await written(bench)
            await asyncio.sleep(60)
        assert bench.store.puts == before + 10

        # And if each is a transaction, its end is one more
        for _ in range(10):
            end(bench, await written(bench) + 1)
            await asyncio.sleep(60)
        assert bench.store.puts == before + 30

    run(scenario)


def test_a_batch_that_is_not_where_it_was_expected_is_told() -> None:
    async def scenario(bench: PutBench) -> None:
        # Given a partition to which another broker writes
        await written(bench)
        await written(bench)
        await asyncio.sleep(60)
        partition = bench.logs[0].partition
        commit = BatchCommit(
            partition=partition,
            start=0,
            length=1,
            record_count=1,
            max_timestamp_ms=0,
        )
        await bench.metadata.reserve_objects(["wal/other"])
        await bench.metadata.commit_object("wal/other", 1, [commit])

        # When this one writes without having heard of it, then it tells where that is
        assert await written(bench) == 3
        await asyncio.sleep(TOLD_S)
        sequence = (await indexes(bench))[-2].sequence
        assert (await tellers(bench))[-1].places == ((0, 0, sequence, (3,)),)

    run(scenario)


def test_transactions_one_after_the_other_are_told_by_their_own_objects() -> None:
    async def scenario(bench: PutBench) -> None:
        # When transactions follow each other for two minutes, each behind its end
        ended = []
        for _ in range(100):
            ended.append(await written(bench) + 1)
            end(bench, ended[-1])
            await asyncio.sleep(0.2)
        last = await written(bench)
        assert last > 0

        # Then no object tells only, and all ends are told
        assert await tellers(bench) == []
        told = {offset for index in await indexes(bench) for _, offset in endings(index)}
        assert told == set(ended)

    run(scenario)


def test_the_end_of_another_brokers_partition_is_told_twice_among_many_objects() -> None:
    async def scenario(bench: PutBench) -> None:
        # Given a writer that is busy with one partition
        await written(bench)
        writing = True

        async def write() -> None:
            while writing:
                await written(bench)

        task = asyncio.create_task(write())

        # When transactions of another one end all the time
        for offset in range(650):
            end(bench, offset, partition=1)
            await asyncio.sleep(0.2)
        writing = False
        await task

        # Then the next object tells of each, and every AGAIN_S one that stays
        found = await indexes(bench)
        told = [offset for index in found if index.runs for _, offset in endings(index)]
        assert told == list(range(len(told)))
        assert len(told) > 640
        alone = await tellers(bench)
        assert len(alone) == 4
        told = [offset for index in alone for _, offset in endings(index)]
        assert told == list(range(len(told)))

        # And the rest of them is told when it is quiet
        await asyncio.sleep(AGAIN_S + TOLD_S)
        alone = await tellers(bench)
        assert [offset for index in alone for _, offset in endings(index)] == list(range(650))

    run(scenario)


def test_many_ends_are_told_at_once() -> None:
    async def scenario(bench: PutBench) -> None:
        await written(bench)
        await asyncio.sleep(60)
        for _ in range(20):
            for offset in range(1000):
                end(bench, offset, partition=1)
            await written(bench)
        assert max(len(index.endings) for index in await tellers(bench)) < 10_000

    run(scenario)


def test_what_a_stop_leaves_is_told_at_once() -> None:
    async def scenario(bench: PutBench) -> None:
        await written(bench)
        end(bench, 1)
        await bench.writer.close(10.0)
        await bench.writer.telling.finish(10.0)
        (told,) = await tellers(bench)
        assert endings(told) == [(0, 1)]
        assert told.places == ((0, 0, 0, (0,)),)

        # And a store that is away holds nobody up
        end(bench, 2)
        await bench.writer.telling.finish(PUT_S / 2)

    run(scenario)


def test_a_store_that_is_away_is_waited_for_with_one_object_and_bounded_memory() -> None:
    async def scenario(bench: PutBench) -> None:
        # Given a store that does not answer, for a broker that only coordinates
        await written(bench)
        end(bench, 0, partition=1)
        gate, put = asyncio.Event(), bench.store.put

        async def held(path: str, parts: Sequence[Buffer]) -> None:
            await gate.wait()
            await put(path, parts)

        bench.store.put = held  # type: ignore[method-assign]

        # When transactions end meanwhile
        for offset in range(1, 100_000):
            end(bench, offset, partition=1)
            if offset % 1000 == 0:
                await asyncio.sleep(1)
        gate.set()
        await asyncio.sleep(TOLD_S + PUT_S)

        # Then they are told by the next object, up to a number
        first, second = await tellers(bench)
        assert len(first.endings) < 5_000
        assert len(second.endings) == MOST_KEPT

    run(scenario)


def test_postgres_is_not_needed_to_tell() -> None:
    async def scenario(bench: PutBench) -> None:
        await written(bench)
        bench.metadata.reserve_objects = unavailable  # type: ignore[method-assign]
        end(bench, 1)
        await asyncio.sleep(TOLD_S)
        assert len(await tellers(bench)) == 1

    run(scenario)


def test_what_a_refused_batch_tells_is_told_again() -> None:
    async def scenario(bench: PutBench) -> None:
        # Given the end of a transaction, told by an object whose batch was not appended
        await written(bench, leader_epoch=2)
        end(bench, 1)
        assert await written(bench, leader_epoch=1) == -1
        assert endings((await indexes(bench))[-1]) == [(0, 1)]

        # Then an object that stays tells it, too
        await asyncio.sleep(TOLD_S)
        (told,) = await tellers(bench)
        assert endings(told) == [(0, 1)]
        assert told.places == ((0, 0, 0, (0,)), (0, 0, 1, (NOT_APPENDED,)))

    run(scenario)
