"""How long who is over a quota waits, and for what; what is refused meanwhile."""

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.quotas.quota_entities import CLIENT_ID
from broker.quotas.quota_meter import Metered
from broker.refusals import Refusal
from tests.broker.quotas.quota_world import FETCH, HEADER, PRODUCE, World


@pytest.fixture
def world() -> World:
    return World()


async def test_a_burst_mutes_its_own_connection_and_the_others_for_a_window(world: World) -> None:
    # Given a quota of each kind that many connections share
    await world.set(
        {CLIENT_ID: "etl"}, producer_byte_rate=100, consumer_byte_rate=100, request_percentage=1e-4
    )

    # When one of them produces a hundred windows at once, and another one fetches as much
    _, producer = world.use(PRODUCE, 100_000)
    use, consumer = world.limited(FETCH)
    assert not use.refuses_fetch(100_000)

    async def handler() -> int:
        return sum(range(2_000_000))

    await use.metered(handler())
    use.throttled(HEADER, None)

    # Then these wait for all of it, and the others go on after ten seconds
    assert (producer.muted_s, consumer.muted_s) == (990, 990)
    use, other = world.limited(FETCH)
    assert use.refuses_fetch()
    assert other.muted_s == 10
    world.now_s += 10.02
    assert world.use(PRODUCE, 1)[1].muted_s == 0
    use, other = world.limited(FETCH)
    assert not use.refuses_fetch()
    use.throttled(HEADER, None)
    assert other.muted_s == 0


async def test_a_fetch_is_refused_while_anything_is_owed_and_not_counted(world: World) -> None:
    # Given a consumer that may have 1,000 bytes at once, and gets 200 more than that
    await world.set({CLIENT_ID: "etl"}, consumer_byte_rate=100)
    use, connection = world.limited(FETCH)
    assert use.fetchable_bytes(10**9) == 501
    assert not use.refuses_fetch(900)
    assert connection.muted_s == 0
    assert not use.refuses_fetch(300)
    assert connection.muted_s == 2

    # Then another connection that shares the quota gets nothing until that is paid for
    use, other = world.limited(FETCH)
    assert use.refuses_fetch()
    assert use.refuses_fetch(10**9)
    assert other.muted_s == 2
    world.now_s += 2
    assert not use.refuses_fetch()


async def test_a_batch_larger_than_what_others_leave_is_sent(world: World) -> None:
    # Given a quota of 10 bytes at once that two consumers share, so that it is never unused
    await world.set({CLIENT_ID: "etl"}, consumer_byte_rate=1)
    small, _ = world.limited(FETCH)
    large, connection = world.limited(FETCH)
    assert not small.refuses_fetch(1)

    # Then a batch of 100 is sent as soon as nothing is owed, and both wait for it afterwards
    assert not large.refuses_fetch(100)
    assert connection.muted_s == 91
    assert small.refuses_fetch(1)


async def test_what_began_before_a_change_makes_nobody_wait_after_it(world: World) -> None:
    # Given requests of a client that owes much of all its quotas
    rates = {
        "producer_byte_rate": 1,
        "consumer_byte_rate": 1,
        "controller_mutation_rate": 1,
        "request_percentage": 0.0001,
    }
    await world.set({CLIENT_ID: "etl"}, **rates)
    world.limited(FETCH)[0].refuses_fetch(1000)
    world.limited()[0].mutate(1000, strict=True)
    use, connection = world.limited()

    # When its quotas are removed, then the one under way is neither refused nor muted
    await world.set({CLIENT_ID: "etl"}, **dict.fromkeys(rates))
    assert not use.refuses_fetch(1000)
    use.mutate(1, strict=True)
    use.mutate(1, strict=False)

    async def handler() -> int:
        return sum(range(200_000))

    await use.metered(handler())
    use.throttled(HEADER, None)
    assert connection.muted_s == 0


async def test_the_smallest_share_of_time_is_no_error(world: World) -> None:
    await world.set({CLIENT_ID: "etl"}, request_percentage=5e-324)
    use, connection = world.limited()

    async def handler() -> int:
        return sum(range(200_000))

    await use.metered(handler())
    use.throttled(HEADER, None)
    assert connection.muted_s == 1


async def test_mutations_are_refused_only_where_the_client_knows_the_code(world: World) -> None:
    # Given one mutation a second, hence 11 at once
    await world.set({CLIENT_ID: "etl"}, controller_mutation_rate=1)

    # When a new client has taken 20, then nothing is said; the next one is refused
    use, connection = world.limited()
    use.mutate(20, strict=True)
    assert connection.muted_s == 0
    with pytest.raises(Refusal) as refused:
        use.mutate(1, strict=True)
    assert refused.value.code is ErrorCode.throttling_quota_exceeded
    assert connection.muted_s == 9

    # But an old client gets them, and waits
    use, connection = world.limited()
    use.mutate(1, strict=False)
    assert connection.muted_s == 10


async def test_time_on_the_event_loop_counts_and_is_waited_for_a_second_at_a_time(
    world: World,
) -> None:
    # Given a millionth of the event loop's time
    await world.set({CLIENT_ID: "etl"}, request_percentage=0.0001)
    use, connection = world.limited()

    # When a handler works, and waits
    async def handler() -> str:
        sum(range(200_000))
        await asyncio.sleep(0)
        sum(range(200_000))
        return "answer"

    assert await use.metered(handler()) == "answer"
    use.throttled(HEADER, None)

    # Then its connection is muted for one sample
    assert connection.muted_s == 1


async def test_a_metered_coroutine_behaves_as_ever() -> None:
    spent: list[float] = []

    async def failing() -> None:
        await asyncio.sleep(0)
        raise KeyError("as it comes")

    async def cancelled(cleaned: list[str]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    async def awaiting(work: Any) -> Any:
        return await work

    with pytest.raises(KeyError):
        await Metered(failing(), spent.append)
    cleaned: list[str] = []
    task = asyncio.ensure_future(awaiting(Metered(cancelled(cleaned), spent.append)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["up"]
    assert len(spent) == 4
