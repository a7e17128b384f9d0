"""What many partitions cost, in calls and rows: bench/costs.toml has the limits.

A request costs what it asks for, whatever else is in the cluster.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

import asyncpg
import pytest

from protocol.records import Record, build_batch
from storage.postgres.postgres_binaries import unix_socket_dsn
from storage.postgres.postgres_connection import Connection
from tests.support.counted import LIMITS, CountedBroker, check, counted_broker, least
from tests.support.wire import WireClient, fetch_request, produce_request, request_entities

FEW: Final = 10
MANY: Final = 10_000
WIDE: Final = 1_000
REQUESTS: Final = 100
NAMES: Final = [f"one-{number}" for number in range(30)]
BATCH: Final = build_batch([Record(offset_delta=0, value=bytes(100))])
MOST_FOLLOWED: Final = 1_000
FLAT: Final = 50
"""Calls that may be more by chance: those that come with time. A walk over all would be 10,000."""

REST_S: Final = 60.0
IDLE_S: Final = 1.5
IDLE_CALLS: Final = 3_000
"""A broker that does nothing; the loop over all partitions alone made 10,000 calls every 0.1 s."""

_numbers = count()

TABLES: Final = ("objects", "segments", "partitions", "producers")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedBroker]:
    with counted_broker(tmp_path_factory.mktemp("counted")) as broker:
        yield broker


@pytest.fixture
async def client(broker: CountedBroker) -> AsyncIterator[WireClient]:
    async with await WireClient.connect(broker.process.bootstrap) as client:
        yield client


def metadata_request(*names: str) -> Any:
    module = request_entities(3, 12)
    return module.MetadataRequest(
        topics=tuple(module.MetadataRequestTopic(topic_id=None, name=name) for name in names),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def wide_produce(topic: str, partitions: int) -> Any:
    module = request_entities(0, 9)
    of_partitions = tuple(
        module.PartitionProduceData(index=index, records=BATCH) for index in range(partitions)
    )
    request: Any = produce_request(topic, BATCH)
    return type(request)(
        transactional_id=None,
        acks=request.acks,
        timeout=request.timeout,
        topic_data=(module.TopicProduceData(name=topic, partition_data=of_partitions),),
    )


async def calls_of(
    broker: CountedBroker, client: WireClient, requests: Sequence[Any]
) -> dict[str, float]:
    """Return what one of them costs."""
    broker.begin()
    for request in requests:
        await client.ask(request)
    counts = await broker.end()
    return {kind: count / len(requests) for kind, count in counts.items()}


async def costs_of_one(
    broker: CountedBroker, client: WireClient, limits: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Return what each kind of request for one partition costs, counted again above its limits."""
    again = [metadata_request(NAMES[0])] * REQUESTS
    anew = [metadata_request(name) for name in NAMES]
    fetch = [fetch_request([(NAMES[0], 0, 0)], max_bytes=1)] * REQUESTS
    produce = [produce_request(NAMES[0], BATCH)] * REQUESTS

    async def count_anew() -> dict[str, float]:
        await client.create_topic(f"change-{next(_numbers)}")  # no answer is remembered after it
        await client.ask(again[0])
        return await calls_of(broker, client, anew)

    costs = {"anew": await least(count_anew, limits.get("anew"))}
    for kind, requests in (("again", again), ("produce", produce), ("fetch", fetch)):
        count = partial(calls_of, broker, client, requests)
        costs[kind] = await least(count, limits.get(kind))
    return costs


async def test_a_request_for_one_partition_costs_the_same_among_ten_thousand(
    broker: CountedBroker, client: WireClient
) -> None:
    # Given a few partitions, what requests for one of them cost, and what a broker does when idle
    for name in NAMES:
        await client.create_topic(name)
    await client.create_topic("few", FEW)
    few = await costs_of_one(broker, client, LIMITS["metadata"])
    for kind in ("python", "native"):
        for question in ("anew", "again"):
            limit = LIMITS["metadata"][question][kind]
            check(f"metadata {question}, {kind}", few[question][kind], limit)

    # When there are very many more, all of them known to the broker
    await client.create_topic("many", MANY)
    await come_to_rest(broker)

    # Then none of it costs more
    limits = {
        what: {kind: costs[kind] + FLAT for kind in ("python", "native")}
        for what, costs in few.items()
    }
    many = await costs_of_one(broker, client, limits)
    for what, costs in many.items():
        for kind, limit in limits[what].items():
            assert costs[kind] <= limit, f"{what}, {kind}: {few[what]} {costs}"


async def test_a_fetch_of_a_session_costs_what_is_new_in_it(
    broker: CountedBroker, client: WireClient
) -> None:
    # Given what a Fetch costs of a session over one partition, and of one over very many
    costs, limits = list[dict[str, float]](), LIMITS["session"]
    for topic, partitions in (("narrow", 1), ("broad", MOST_FOLLOWED)):
        await client.create_topic(topic, partitions)
        begin = fetch_request(
            [(topic, index, 0) for index in range(partitions)], max_wait_ms=0, session_epoch=0
        )
        session_id = (await client.ask(begin)).session_id
        count_fetches = partial(cost_in_session, broker, client, session_id, count(1))
        costs.append(await least(count_fetches, limits))
        limits = {kind: costs[0][kind] + MOST_FOLLOWED for kind in limits}
        await client.ask(fetch_request([], max_wait_ms=0, session_id=session_id))  # which ends it
    await come_to_rest(broker)

    # Then it is little, and of many not so much as a call for each: in what is more there are polls
    # for other brokers' commits, more of them while a machine is busy
    one, many = costs
    for kind in ("python", "native"):
        check(f"fetch of a session, {kind}", one[kind], LIMITS["session"][kind])
        assert many[kind] <= one[kind] + MOST_FOLLOWED, f"{kind}: {one} {many}"


async def cost_in_session(
    broker: CountedBroker, client: WireClient, session_id: int, epochs: Iterator[int]
) -> dict[str, float]:
    requests = [
        fetch_request([], max_wait_ms=0, session_id=session_id, session_epoch=next(epochs))
        for _ in range(REQUESTS)
    ]
    return await calls_of(broker, client, requests)


async def come_to_rest(broker: CountedBroker) -> None:
    """Wait until it has learned of all partitions, and does what an idle broker does."""
    async with asyncio.timeout(REST_S):
        while True:
            broker.begin()
            await asyncio.sleep(IDLE_S)
            if (await broker.end())["python"] < IDLE_CALLS * IDLE_S:
                return


async def test_one_request_writes_to_a_thousand_partitions(
    broker: CountedBroker, client: WireClient
) -> None:
    # Given as many partitions with a record each, and the database that has them
    await client.create_topic("wide", WIDE)
    request = wide_produce("wide", WIDE)
    await client.ask(request)
    database: Connection = await asyncpg.connect(unix_socket_dsn(broker.home / "postgres"))
    calls: dict[str, list[float]] = {"python": [], "native": []}
    limits = LIMITS["wide"]
    try:
        for offset in (1, 2, 3):
            before = await database.fetchval("SELECT pg_current_xact_id()::text::bigint")

            # When one request has a record for each, alone in an object
            broker.begin()
            (topic,) = (await client.ask(request)).responses
            counts = await broker.end()
            rows = {name: await written(database, name, before) for name in TABLES}

            # Then each is acknowledged, and the object costs one commit
            assert [one.base_offset for one in topic.partition_responses] == [offset] * WIDE
            assert counts["commits"] == limits["commits"]
            assert counts["store requests"] == limits["store requests"]
            assert rows == {name: limits["rows"].get(name, 0) * WIDE for name in TABLES} | {
                "objects": 1
            }
            for kind, counted in calls.items():
                counted.append(counts[kind])
    finally:
        await database.close()

    # And each costs what it may; what the broker does beside a request comes on top, the longer one
    # takes the more of it
    for kind, counted in calls.items():
        check(f"produce to {WIDE}, {kind}", min(counted) / WIDE, limits[kind])


async def test_an_object_has_one_row_of_each_partition(
    broker: CountedBroker, client: WireClient
) -> None:
    # Given a partition, and the database that has it
    await client.create_topic("deep")
    database: Connection = await asyncpg.connect(unix_socket_dsn(broker.home / "postgres"))
    try:
        before = await database.fetchval("SELECT pg_current_xact_id()::text::bigint")

        # When many producers write to it at a time
        async with asyncio.TaskGroup() as producers:
            for _ in range(REQUESTS // 5):
                producers.create_task(produce(broker, "deep", 5))
        rows = {name: await written(database, name, before) for name in TABLES}
    finally:
        await database.close()

    # Then Postgres has a row for each object, not for each batch
    assert rows["segments"] == rows["objects"]
    assert rows["objects"] <= REQUESTS / 2
    assert rows["partitions"] == 1


async def produce(broker: CountedBroker, topic: str, times: int) -> None:
    async with await WireClient.connect(broker.process.bootstrap) as client:
        for _ in range(times):
            assert (await client.produce(topic, BATCH)).error_code == 0


async def written(database: Connection, table: str, since: int) -> int:
    """Return how many rows there are that transactions since then inserted or updated."""
    live = " AND state = 'live'" if table == "objects" else ""
    count: int = await database.fetchval(
        f"SELECT count(*) FROM streamhouse_internal.{table} WHERE xmin::text::bigint >= $1{live}",
        since,
    )
    return count
