"""Rounds and workers of the upkeep process: whose turn it is, and what becomes of failures."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from broker.upkeep.upkeep_loops import Loops
from broker.upkeep.upkeep_report import UpkeepCounts, Work
from storage.configs.config_types import LONG_MAX
from storage.errors import MetadataUnavailable, ObjectStoreUnavailable
from tests.contracts.metadata_stores import KINDS, open_store
from tests.support.fakes.metadata import MemoryMetadata

PATIENCE_S = 30.0


class Clock:
    """The database's clock."""

    now_ms = 1000


@asynccontextmanager
async def in_background(work: Awaitable[None]) -> AsyncIterator["asyncio.Future[None]"]:
    running = asyncio.ensure_future(work)
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.wait([running])


def given() -> tuple[Loops, UpkeepCounts, Clock]:
    clock, counts = Clock(), UpkeepCounts()
    return Loops(MemoryMetadata(Random(1), lambda: clock.now_ms), counts), counts, clock


def failing(
    times: int, error: Exception, then: Callable[[], None]
) -> Callable[[], Awaitable[bool]]:
    """Return work that fails so often, and then calls `then` once and finds nothing more."""
    left = [*[error] * times]

    async def work() -> bool:
        if left:
            raise left.pop()
        then()
        return False

    return work


async def test_of_two_processes_one_does_a_round() -> None:
    # Given two processes with the same database, whose clock stands still
    clock = Clock()
    metadata = MemoryMetadata(Random(1), lambda: clock.now_ms)
    done: list[str] = []
    second_looked = asyncio.Event()

    async def work(name: str) -> None:
        done.append(name)
        second_looked.set()

    # When both look again and again
    one, other = Loops(metadata, UpkeepCounts()), Loops(metadata, UpkeepCounts())
    async with (
        in_background(one.rounds(Work.RETAIN, lambda: 100, lambda: work("one"))),
        in_background(other.rounds(Work.RETAIN, lambda: 100, lambda: work("other"))),
    ):
        async with asyncio.timeout(PATIENCE_S):
            await second_looked.wait()
            second_looked.clear()

            # Then one of them has done it; and when the time is over, one does it again
            assert len(done) == 1
            clock.now_ms += 100
            await second_looked.wait()
    assert len(done) == 2


@pytest.mark.parametrize("error", [MetadataUnavailable("away"), ObjectStoreUnavailable("503")])
async def test_what_gets_no_answer_is_tried_again(error: Exception) -> None:
    # Given work that gets no answer twice
    loops, counts, _ = given()
    done = asyncio.Event()
    async with in_background(loops.rounds(Work.SWEEP, lambda: 100, failing(2, error, done.set))):
        async with asyncio.timeout(PATIENCE_S):
            await done.wait()
        await asyncio.sleep(0)

    # Then it is done, in the same round
    report = counts.report({})
    assert report.succeeded == {Work.SWEEP: 1}
    assert report.failed == {Work.SWEEP: 2}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_round_may_be_as_rare_as_can_be_set(kind: str) -> None:
    # Given an interval that Kafka takes, and that is longer than Postgres can count
    async with open_store(kind) as opened:
        loops = Loops(opened.store, UpkeepCounts())
        work = failing(1, KeyError("reached"), lambda: None)

        # When a round is looked for, then it is done
        with pytest.raises(KeyError, match="reached"):
            await loops.rounds(Work.COMPACT, lambda: LONG_MAX, work)


async def test_a_bug_ends_the_loop() -> None:
    loops, _, _ = given()
    work = failing(1, KeyError("bug"), lambda: None)
    with pytest.raises(KeyError):
        await loops.rounds(Work.BUILD, lambda: 100, work)


async def test_a_worker_goes_on_as_long_as_there_is_work_and_when_more_is_planned() -> None:
    # Given three tasks
    loops, _, clock = given()
    tasks, idle = [1, 2, 3], asyncio.Event()

    async def work() -> bool:
        if not tasks:
            idle.set()
            return False
        tasks.pop()
        return True

    async def plan() -> None:
        tasks.extend((4, 5))

    async with (
        asyncio.timeout(PATIENCE_S),
        in_background(loops.tasks(Work.BUILD, lambda: 3_600_000, work)),
    ):
        # When a worker begins, then it does all of them
        await idle.wait()
        assert not tasks

        # When a round plans more, then it does them, long before it would ask by itself
        idle.clear()
        clock.now_ms += 100
        async with in_background(loops.rounds(Work.BUILD, lambda: 3_600_000, plan)):
            await idle.wait()
            assert not tasks
