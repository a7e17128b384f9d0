"""Reads of what only the store has, while it does not answer, or takes long: nobody waits long."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import pytest

from protocol.batch_scan import FoundTimestamp
from storage.config import MiB
from storage.errors import ObjectMissing, ObjectStoreUnavailable
from storage.partition_log import PartitionLog
from storage.reading.cold_gets import MAX_GETS, ColdGets
from storage.reading.read_planner import ColdRead
from storage.reading.reader import Records
from tests.storage.cold_bench import DEADLINE_S, ColdBench, offsets
from tests.support import virtual_time

PROMISED_S: Final = 16.0  # docs/limits.md
MOMENT_S: Final = 0.1
ROWS: Final = 64

Scenario = Callable[[ColdBench], Awaitable[Any]]


def play(scenario: Scenario, *, max_bytes: int = 64 * MiB) -> None:
    """Play it on a clock of its own, at the end of which nothing is under way."""

    async def main() -> None:
        bench = ColdBench(max_bytes=max_bytes)
        await scenario(bench)
        await bench.close()

    virtual_time.run(main())


async def write(bench: ColdBench, logs: Sequence[PartitionLog], batch_bytes: int = 2_000) -> None:
    """Give each many small objects of the writer."""
    for log in logs:
        for _ in range(ROWS):
            await bench.write([log], batches=1, batch_bytes=batch_bytes)


async def build(bench: ColdBench, logs: Sequence[PartitionLog]) -> None:
    """Give each one segment."""
    for log in logs:
        await bench.write([log], batches=2, batch_bytes=2_000)
        await bench.build(log)


async def within(limit_s: float, reading: Awaitable[Any]) -> Any:
    began_s = asyncio.get_running_loop().time()
    result = await reading
    assert asyncio.get_running_loop().time() - began_s < limit_s + MOMENT_S
    return result


@pytest.mark.parametrize(("written", "built"), [(2, 0), (0, 32), (2, 32)])
def test_a_fetch_is_answered_in_time_while_the_store_is_away(written: int, built: int) -> None:
    async def scenario(bench: ColdBench) -> None:
        # Given old records, and others that a reader has fetched lately
        here, *old = await bench.create(1 + written + built)
        await write(bench, old[:written])
        await build(bench, [*old[written:], here])
        bench.restart()
        assert offsets(await bench.read(here, 0)) == [0, 1]

        # When the store is away, and a fetch wants all of them
        bench.store.away = ""
        reads = [ColdRead(log, 0, 50_000) for log in (*old, here)]
        *failed, found = await within(PROMISED_S, bench.reader.read(reads))

        # Then the others are read, and it is told that the old ones cannot be
        assert offsets(found) == [0, 1]
        assert {type(one) for one in failed} == {ObjectStoreUnavailable}

        # And when it is back, then they are read at once
        bench.store.away = None
        await asyncio.sleep(DEADLINE_S)
        again = await within(0, bench.reader.read(reads))
        assert {type(one) for one in again} == {Records}
        assert any(map(offsets, again[:-1]))

    play(scenario)


def test_what_the_store_gives_is_read_beside_what_it_does_not_answer_for() -> None:
    async def scenario(bench: ColdBench) -> None:
        # Given a store that has an answer for what the writer made, and none for segments
        written, *old = await bench.create(33)
        await write(bench, [written])
        await build(bench, old)
        bench.restart()
        bench.store.away = "topics/"

        # When a fetch wants both, then it has what can be had
        reads = [ColdRead(log, 0, 50_000) for log in (*old, written)]
        *failed, found = await within(PROMISED_S, bench.reader.read(reads))
        assert {type(one) for one in failed} == {ObjectStoreUnavailable}
        assert len(offsets(found)) == 25

    play(scenario)


def test_what_cannot_be_read_at_once_fails_nothing_else_of_its_fetch() -> None:
    async def scenario(bench: ColdBench) -> None:
        # Given old segments, one of which may not be read
        denied, along, *old = await bench.create(32)
        await build(bench, [denied, *old, along, along, along])
        along.high_watermark = 6
        bench.restart()
        bench.store.get_s = 0.03
        (refused,) = await bench.metadata.segments_from(denied.partition, 0, 1)
        *_, last = await bench.metadata.segments_from(along.partition, 0, 3)

        # And a reader who goes from one to the next, and has not the index of the last
        bench.store.denied = {refused.path, last.path}
        for offset in (0, 2):
            assert offsets(await bench.read(along, offset, max_bytes=4_000)) == [offset, offset + 1]
        await asyncio.sleep(MOMENT_S)
        bench.store.denied = {refused.path}

        # When a fetch wants all of them, then it has the others
        reads = [ColdRead(log, 0, 50_000) for log in (denied, *old)]
        reads.insert(1, ColdRead(along, 4, 50_000))
        failed, *found = await bench.reader.read(reads)
        assert isinstance(failed, ObjectStoreUnavailable)
        assert [*map(offsets, found)] == [[4, 5]] + [[0, 1]] * len(old)

    play(scenario)


def test_fetches_of_many_consumers_are_answered_in_time_while_the_store_is_away() -> None:
    async def scenario(bench: ColdBench) -> None:
        # Given many consumers, who together want more than there is memory for
        logs = await bench.create(12)
        await write(bench, logs, batch_bytes=40_000)
        bench.restart()
        bench.store.away = ""
        reads = [bench.read(log, 0, 4 * MiB) for log in logs]

        # Then each is told in time that the store is away
        failed = await within(PROMISED_S, asyncio.gather(*reads))
        assert {type(one) for one in failed} == {ObjectStoreUnavailable}

    play(scenario, max_bytes=10 * MiB)


def test_a_slow_store_is_asked_once_for_what_many_consumers_come_for_again_and_again() -> None:
    async def scenario(bench: ColdBench) -> None:
        # Given many consumers of a slow store, who together want more than there is memory for
        logs = await bench.create(12)
        await write(bench, logs, batch_bytes=40_000)
        bench.restart()
        bench.store.get_s = 6.0

        async def consume(log: PartitionLog) -> None:
            found: list[int] = []
            while len(found) < ROWS:
                records = await within(PROMISED_S, bench.read(log, len(found), 4 * MiB))
                if not isinstance(records, ObjectStoreUnavailable):
                    found += offsets(records)
            assert found == [*range(ROWS)]

        # When they come again and again, then they have all, and nothing was got twice
        await asyncio.gather(*map(consume, logs))
        assert len(bench.store.gets) == len(logs) * ROWS

    play(scenario, max_bytes=10 * MiB)


def test_who_finds_no_memory_in_time_has_what_is_here_and_is_told_of_what_cannot_be_read() -> None:
    async def scenario(bench: ColdBench) -> None:
        # Given a segment that was read lately, one that is lost, and one that nobody has read
        here, lost, cold, *others = await bench.create(5)
        await build(bench, [here, lost])
        await bench.write([cold], batches=2, batch_bytes=50_000)
        await bench.build(cold)
        for log in others * 7:
            await bench.write([log], batches=1, batch_bytes=370_000)
        (row,) = await bench.metadata.segments_from(lost.partition, 0, 1)
        bench.store.lost = {row.path}
        bench.restart()
        assert offsets(await bench.read(here, 0)) == [0, 1]

        # When others have all memory, though not all places, and wait for long
        bench.store.get_s = 3 * PROMISED_S
        reading = [asyncio.create_task(bench.read(log, 0, 4 * MiB)) for log in others]
        await asyncio.sleep(MOMENT_S)
        bench.store.get_s = 0.0

        # Then a fetch of the three has the first, and what it is told of each other is true
        reads = [ColdRead(log, 0, 50_000) for log in (here, lost, cold)]
        found, missing, late = await within(PROMISED_S, bench.reader.read(reads))
        assert offsets(found) == [0, 1]
        assert isinstance(missing, ObjectMissing)
        assert isinstance(late, ObjectStoreUnavailable)
        await asyncio.gather(*reading)

    play(scenario, max_bytes=10 * MiB)


def test_who_waits_for_a_slow_store_is_told_in_time_and_soon_has_all() -> None:
    async def scenario(bench: ColdBench) -> None:
        # Given a store that takes its time, and two consumers who want more than it gives meanwhile
        logs = await bench.create(2)
        await write(bench, logs)
        bench.restart()
        bench.store.get_s = 6.0
        wanted = [bench.read(log, 0) for log in logs]

        # When they read, then the first has what there is by then; the other was behind it
        first, second = await within(PROMISED_S, asyncio.gather(*wanted))
        assert len(offsets(first)) == 32
        assert isinstance(second, ObjectStoreUnavailable)

        # When they come again and again, then both have all, and nothing was got twice
        for log in logs:
            found: list[int] = []
            while len(found) < ROWS:
                records = await within(PROMISED_S, bench.read(log, len(found)))
                if not isinstance(records, ObjectStoreUnavailable):
                    found += offsets(records)
            assert found == [*range(ROWS)]
        assert len(bench.store.gets) == 2 * ROWS

    play(scenario)


def test_who_waits_for_a_place_has_the_answer_of_no_single_object() -> None:
    async def scenario(bench: ColdBench) -> None:
        # Given one object that is told of at once, one that is never, and others that are not there
        paths = [f"wal/{number:04}" for number in range(ROWS)]
        denied, away, *lost = paths
        bench.store.denied, bench.store.away, bench.store.lost = {denied}, away, set(lost)
        bench.store.get_s = 6.0

        # When more are asked for than there are places, then they hear of their own objects
        gets = ColdGets(bench.store, metrics=bench.metrics, clock=lambda: 0.0)
        order = (away, *lost[:MAX_GETS], denied, *lost[MAX_GETS:])
        wanted = [gets.get(path, 0, 1, ahead=False) for path in order]
        answers = await asyncio.gather(*wanted, return_exceptions=True)
        for path, answer in zip(order, answers, strict=True):
            is_lost = path in lost
            assert isinstance(answer, ObjectMissing if is_lost else ObjectStoreUnavailable)

    play(scenario)


def test_a_search_by_time_that_has_no_answer_fails_none_that_the_store_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def at_once(scan: Callable[[Any], Any], batches: Any) -> Any:
        return scan(batches)

    monkeypatch.setattr(asyncio, "to_thread", at_once)  # virtual time goes on without threads

    async def scenario(bench: ColdBench) -> None:
        # Given a slow store, which does not answer for one partition
        logs = await bench.create(32)
        await build(bench, logs)
        (row,) = await bench.metadata.segments_from(logs[0].partition, 0, 1)
        bench.restart()
        bench.store.away, bench.store.get_s = row.path, DEADLINE_S / 2 + 1

        # When all are searched, each longer than that one, then only that one fails
        searches = [bench.timestamps.first_at_or_after(log.partition, 0, 0) for log in logs]
        failed, *found = await asyncio.gather(*searches, return_exceptions=True)
        assert isinstance(failed, ObjectStoreUnavailable)
        assert {type(one) for one in found} == {FoundTimestamp}

    play(scenario)


@pytest.mark.parametrize("is_latest_wanted", [False, True])
def test_searches_by_time_end_in_time_while_the_store_is_away(is_latest_wanted: bool) -> None:
    async def scenario(bench: ColdBench) -> None:
        # Given a request that looks for records in more partitions than are searched at a time
        logs = await bench.create(32)
        await build(bench, logs)
        bench.restart()
        bench.store.away = ""
        searches = [
            bench.timestamps.latest(log.partition, 0)
            if is_latest_wanted
            else bench.timestamps.first_at_or_after(log.partition, 0, 0)
            for log in logs
        ]

        # Then it is told in time that the store is away
        failed = await within(PROMISED_S, asyncio.gather(*searches, return_exceptions=True))
        assert {type(one) for one in failed} == {ObjectStoreUnavailable}

    play(scenario)
