"""Transactions past their timeout, and transactions of more than one broker, over the wire."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from kio.schema.errors import ErrorCode

from tests.support.broker import BrokerProcess, running_broker
from tests.support.host import Stopwatch
from tests.support.postgres import create_empty_database
from tests.support.transaction_wire import (
    ABORT,
    COMMIT,
    LogEntry,
    TransactionalProducer,
    entries,
    fetch,
    init_request,
    read_log,
)
from tests.support.wire import WireClient, leader_of

NONE, FENCED = ErrorCode.none, ErrorCode.producer_fenced
TIMEOUT_S = 3.0
GRACE_S = 10.0  # and as long as somebody had to wait for a processor


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    """Two brokers on one database and one store."""
    home = tmp_path_factory.mktemp("pair")
    dsn = asyncio.run(create_empty_database())
    stores = ("--postgres", dsn, "--store", f"file://{home}/objects")
    with running_broker(home / "a", *stores) as one, running_broker(home / "b", *stores) as other:
        yield [one, other]


@pytest.fixture
async def wires(pair: list[BrokerProcess]) -> AsyncIterator[list[WireClient]]:
    connected = [await WireClient.connect(broker.bootstrap) for broker in pair]
    async with connected[0], connected[1]:
        yield connected


@pytest.fixture
def transactional_id(topic: str) -> str:
    """Return a transactional id that no other test uses."""
    return f"id-of-{topic}"


async def topic_led_by_first(wires: list[WireClient], topic: str, bootstrap: str) -> str:
    """Make topics until there is one whose partition the first broker leads, as both know."""
    async with asyncio.timeout(30):
        while True:
            topic += "-"
            await wires[0].create_topic(topic)
            while len(leaders := {leader_of(await wire.describe(topic)) for wire in wires}) > 1:
                await asyncio.sleep(0.01)
            if leaders == {bootstrap}:
                return topic


async def read_committed(wire: WireClient, topic: str, count: int) -> list[LogEntry]:
    """Follow a log as a consumer of committed records does, until it has had so many entries."""
    found: list[LogEntry] = []
    stopwatch = Stopwatch()
    while len(found) < count:
        assert stopwatch.is_within(TIMEOUT_S + GRACE_S), found
        offset = found[-1][0] + 1 if found else 0
        found += entries(await fetch(wire, topic, offset, committed=True, max_wait_ms=1000))
    return found


@pytest.fixture(params=[1, 2])
async def overdue(
    request: pytest.FixtureRequest, wire: WireClient, topic: str, transactional_id: str
) -> TransactionalProducer:
    """Return a producer whose transaction was aborted when it was past its timeout, not earlier."""
    await wire.create_topic(topic)
    producer = TransactionalProducer(
        wire, transactional_id, request.param, timeout_ms=int(TIMEOUT_S * 1000)
    )
    await producer.init()
    await producer.add(topic, 0)
    began_s = time.monotonic()
    await producer.produce(topic, b"a")
    assert await read_committed(wire, topic, 2) == [(0, b"a"), (1, ABORT)]
    assert time.monotonic() - began_s >= TIMEOUT_S
    return producer


async def test_who_was_overdue_goes_on_once_it_has_heard_of_it(
    overdue: TransactionalProducer, topic: str
) -> None:
    # Given that it cannot go on, nor commit
    is_new = overdue.transaction_version == 2
    assert (await overdue.produce(topic, b"b")).error_code is ErrorCode.invalid_producer_epoch
    assert await overdue.add(topic, 0) is FENCED
    assert await overdue.end(committed=True) is (ErrorCode.invalid_txn_state if is_new else FENCED)

    # When it aborts, or as a client of before KIP-890 asks for an epoch, twice as answers are lost
    known = overdue.identity
    for _ in range(2):
        overdue.epoch = known.epoch
        if is_new:
            assert await overdue.end(committed=False) is NONE
        else:
            assert await overdue.end(committed=False) is FENCED
            assert await overdue.init() is NONE
        assert (overdue.producer_id, overdue.epoch) == (known.producer_id, known.epoch + 1)

    # Then it goes on
    await overdue.add(topic, 0)
    assert (await overdue.produce(topic, b"c")).error_code is NONE
    assert await overdue.end(committed=True) is NONE
    assert await read_log(overdue.wire, topic) == [(0, b"a"), (1, ABORT), (2, b"c"), (3, COMMIT)]


async def test_one_broker_begins_and_the_other_ends(
    pair: list[BrokerProcess], wires: list[WireClient], topic: str, transactional_id: str
) -> None:
    # Given a transaction that all is asked of one broker for
    first, second = wires
    name = await topic_led_by_first(wires, topic, pair[0].bootstrap)
    producer = TransactionalProducer(first, transactional_id)
    await producer.init()
    assert (await producer.produce(name, b"a")).error_code is NONE
    assert await read_log(first, name) == [(0, b"a")]

    # When the other one is asked to end it, twice
    request = producer.end_request(committed=True)
    answers = [await wire.ask(request) for wire in (second, first)]

    # Then both give the same answer, and readers at the first one see the marker
    assert answers[0].error_code is NONE
    assert answers[0] == answers[1]
    assert await read_committed(first, name, 2) == [(0, b"a"), (1, COMMIT)]

    # And a successor may start at the other one
    response = await second.ask(init_request(transactional_id))
    assert (response.error_code, response.producer_epoch) == (NONE, 2)
    assert (await producer.produce(name, b"b")).error_code is ErrorCode.invalid_producer_epoch


async def test_brokers_that_end_and_sweep_at_a_time_write_one_marker(
    pair: list[BrokerProcess], wires: list[WireClient], topic: str, transactional_id: str
) -> None:
    # Given transactions in one partition, some of which will be overdue soon
    name = await topic_led_by_first(wires, topic, pair[0].bootstrap)
    producers = [
        TransactionalProducer(
            wires[0],
            f"{transactional_id}-{at}",
            timeout_ms=60_000 if at % 2 else int(TIMEOUT_S * 1000),
        )
        for at in range(10)
    ]
    for producer in producers:
        await producer.init()
        produced = await producer.produce(name, producer.transactional_id.encode())
        assert produced.error_code is NONE

    # When both brokers are asked for the end of all others at a time, in contradiction
    async def end(producer: TransactionalProducer) -> set[ErrorCode]:
        asked = [wire.ask(producer.end_request(committed=wire is wires[0])) for wire in wires]
        answers = await asyncio.gather(*asked)
        return {answer.error_code for answer in answers}

    codes = [await end(producer) for producer in producers[1::2]]

    # Then one of each two contradictions is true, and each transaction has one marker in the end
    assert codes == [{NONE, ErrorCode.invalid_txn_state}] * len(codes)
    said = [value for _, value in await read_committed(wires[0], name, 2 * len(producers))]
    assert said.count(COMMIT) + said.count(ABORT) == len(producers)
    assert said.count(ABORT) >= len(producers) // 2
