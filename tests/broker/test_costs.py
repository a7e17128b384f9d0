"""What a Produce and a Fetch cost, in calls and in memory: bench/costs.toml has the limits."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from protocol.records import Record, build_batch
from tests.support.counted import LIMITS, CountedBroker, check, counted_broker, least
from tests.support.wire import WireClient, fetch_request, produce_request

REQUESTS: Final = 200
TRACED_REQUESTS: Final = 20

PRODUCE: Final = "produce"
FETCH: Final = "fetch"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedBroker]:
    with counted_broker(tmp_path_factory.mktemp("counted")) as broker:
        yield broker


async def cost(broker: CountedBroker, client: WireClient, request: Any) -> dict[str, float]:
    """Return what one of them costs."""
    broker.begin()
    for _ in range(REQUESTS):
        await client.ask(request)
    counts = await broker.end()
    return {kind: count / REQUESTS for kind, count in counts.items()}


async def memory_of(broker: CountedBroker, client: WireClient, request: Any) -> dict[str, float]:
    """Return the most that was there at a time, and what one of them leaves behind."""
    broker.begin_memory()
    for _ in range(TRACED_REQUESTS):
        await client.ask(request)
    counts = await broker.end()
    return counts | {"kept bytes": counts["kept bytes"] / TRACED_REQUESTS}


@pytest.mark.parametrize("size", LIMITS["bytes"])
async def test_a_request_costs_no_more_than_it_may(broker: CountedBroker, size: int) -> None:
    # Given a topic with a batch
    topic, at = f"of-{size}", LIMITS["bytes"].index(size)
    batch = build_batch([Record(offset_delta=0, value=bytes(size))])
    async with await WireClient.connect(broker.process.bootstrap) as client:
        await client.create_topic(topic)
        produce = produce_request(topic, batch)
        fetch = fetch_request([(topic, 0, 0)], max_bytes=1)

        for name, request in ((PRODUCE, produce), (FETCH, fetch)):
            # When it is asked many times, after a first time that makes what is made once
            await client.ask(request)
            limits = {kind: limit[at] for kind, limit in LIMITS[name].items()}
            costs = await least(partial(cost, broker, client, request), limits)

            # Then each costs what it costs
            for kind, limit in limits.items():
                check(f"{name} of {size} bytes, {kind}", costs[kind], limit)


@pytest.mark.parametrize("size", LIMITS["bytes"])
async def test_a_request_takes_no_more_memory_than_it_may(broker: CountedBroker, size: int) -> None:
    # Given a topic with a batch
    topic, at = f"traced-{size}", LIMITS["bytes"].index(size)
    batch = build_batch([Record(offset_delta=0, value=bytes(size))])
    async with await WireClient.connect(broker.process.bootstrap) as client:
        await client.create_topic(topic)
        for name, request in (
            (PRODUCE, produce_request(topic, batch)),
            (FETCH, fetch_request([(topic, 0, 0)], max_bytes=1)),
        ):
            # When it is asked many times, one after the other
            for _ in range(TRACED_REQUESTS):
                await client.ask(request)
            limits = {kind: limit[at] for kind, limit in LIMITS["allocations"][name].items()}
            memory = await least(partial(memory_of, broker, client, request), limits)

            # Then at most so much was there at a time, beside what stays
            for kind, limit in limits.items():
                assert memory[kind] <= limit, f"{name} of {size} bytes, {kind}: {memory[kind]}"
