"""Appends that wait for somebody: their order, and what becomes of those behind one that fails."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker.later_appends import LaterAppends, RepeatLater
from protocol.errors import InvalidRecords
from protocol.ids import Partition
from storage.metadata.port import BatchOutcome

TOPIC = UUID(int=7)
PARTITION = Partition(TOPIC, 0)


def appended(base_offset: int) -> BatchOutcome:
    return BatchOutcome(
        base_offset=base_offset, log_start_offset=0, last_stable_offset=0, aborted_count=0
    )


class World:
    """A log, and appends to it that wait until they are let go."""

    def __init__(self) -> None:
        self.appends = LaterAppends()
        self.log: list[str] = []

    def append(
        self, name: str, *, after: asyncio.Event, fails: Exception | None = None
    ) -> Callable[[], Awaitable[asyncio.Future[BatchOutcome]]]:
        async def append() -> asyncio.Future[BatchOutcome]:
            await after.wait()
            if fails is not None:
                raise fails
            self.log.append(name)
            outcome: asyncio.Future[BatchOutcome] = asyncio.get_running_loop().create_future()
            outcome.set_result(appended(len(self.log)))
            return outcome

        return append

    def begin(
        self, name: str, after: asyncio.Event, *, fails: Exception | None = None, peer: str = "a:1"
    ) -> asyncio.Task[BatchOutcome]:
        return self.appends.begin(peer, PARTITION, self.append(name, after=after, fails=fails))


async def test_one_connections_appends_to_a_partition_keep_their_order() -> None:
    # Given two of one connection, the first of which waits, and one of another
    world, slow, fast = World(), asyncio.Event(), asyncio.Event()
    fast.set()
    tasks = [world.begin("first", slow), world.begin("second", fast)]
    other = world.begin("other", fast, peer="b:2")
    await other
    assert world.appends.waiting("a:1", TOPIC, 0)
    assert not world.appends.waiting("a:1", TOPIC, 1)
    assert not world.appends.waiting("b:2", TOPIC, 0)

    # When the first may go on, then the second follows, and nothing is remembered of them
    slow.set()
    await asyncio.gather(*tasks)
    assert world.log == ["other", "first", "second"]
    assert not world.appends.waiting("a:1", TOPIC, 0)


async def test_what_is_behind_a_batch_to_repeat_is_to_be_repeated_too() -> None:
    # Given three behind each other, of which the first gets no answer
    world, go = World(), asyncio.Event()
    silent = RepeatLater(ErrorCode.not_enough_replicas, "nobody answers")
    tasks = [world.begin("first", go, fails=silent), world.begin("second", go)]
    tasks.append(world.begin("third", go))

    # When it is refused, then none of them is appended, and the one that comes later is
    go.set()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert ended == [silent] * 3
    assert (await world.begin("later", go)).base_offset == 1
    assert world.log == ["later"]


async def test_a_batch_that_is_refused_for_good_holds_up_nobody() -> None:
    world, go = World(), asyncio.Event()
    wrong = world.begin("wrong", go, fails=InvalidRecords("no id"))
    right = world.begin("right", go)
    go.set()
    assert (await right).base_offset == 1
    with pytest.raises(InvalidRecords):
        await wrong


async def test_a_task_that_is_cancelled_leaves_the_others_their_turn() -> None:
    # Given three behind each other
    world, go = World(), asyncio.Event()
    first, second, third = (world.begin(name, go) for name in ("first", "second", "third"))
    await asyncio.sleep(0)

    # When the ones behind end early, then the first is not disturbed
    third.cancel()
    second.cancel()
    await asyncio.wait((second, third))
    go.set()
    assert (await first).base_offset == 1
    assert not world.appends.waiting("a:1", TOPIC, 0)


class Batch:
    """As large as batches are."""


async def test_a_refused_batch_is_not_left_to_the_garbage_collector() -> None:
    # Given an append that knows what becomes of it, as those of Produce do
    world = World()
    outcomes: list[asyncio.Task[BatchOutcome]] = []

    def begin() -> weakref.ref[Batch]:
        batch = Batch()

        async def append() -> asyncio.Future[BatchOutcome]:
            assert isinstance(batch, Batch)
            assert len(outcomes) == 1
            raise InvalidRecords("records without keys")

        outcomes.append(world.appends.begin("a:1", PARTITION, append))
        return weakref.ref(batch)

    gc.collect()
    gc.disable()
    try:
        # When it is refused
        batch = begin()
        with pytest.raises(InvalidRecords, match="without keys"):
            await outcomes[0]

        # Then nothing holds the batch any more
        assert batch() is None
    finally:
        gc.enable()
