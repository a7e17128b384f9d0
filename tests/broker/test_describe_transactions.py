"""DescribeProducers, DescribeTransactions and ListTransactions over the wire (KIP-664)."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from tests.support.broker import BrokerProcess, start_broker
from tests.support.postgres import create_empty_database
from tests.support.transaction_wire import TransactionalProducer
from tests.support.wire import WireClient, encode_frame, milliseconds, request_entities

DESCRIBE_PRODUCERS: Final = 61
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
NEWEST_LIST: Final = 2
HEADER_BYTES: Final = 5
NEVER: Final = b"\xff" * 8
NONE: Final = ErrorCode.none
PATIENCE_S: Final = 30.0


async def transactional(wire: WireClient, name: str, **settings: Any) -> TransactionalProducer:
    producer = TransactionalProducer(wire, name, **settings)
    assert await producer.init() is NONE
    return producer


async def describe_producers(wire: WireClient, topic: str, *partitions: int) -> Any:
    """Return what answers each partition."""
    module = request_entities(DESCRIBE_PRODUCERS, 0)
    asked = module.TopicRequest(name=topic, partition_indexes=partitions)
    (answer,) = (await wire.ask(module.DescribeProducersRequest(topics=(asked,)))).topics
    assert answer.name == topic
    return answer.partitions


async def describe(wire: WireClient, *transactional_ids: str) -> Any:
    """Return what answers each id; who has no open transaction has the start time 0.

    It has -1 on the wire, which kio writes, but does not read.
    """
    module = request_entities(DESCRIBE_TRANSACTIONS, 0)
    request = module.DescribeTransactionsRequest(transactional_ids=transactional_ids)
    await wire.send(encode_frame(request, 0))
    frame = await wire.receive_frame()
    kind: Any = load_response_schema(DESCRIBE_TRANSACTIONS, 0)
    response, _ = entity_reader(kind)(frame.replace(NEVER, bytes(8)), HEADER_BYTES)
    idle = [one for one in response.transaction_states if started_ms(one) == 0]
    assert frame.count(NEVER) == sum(one.error_code is NONE for one in idle)
    return response.transaction_states


def started_ms(state: Any) -> int:
    return int(state.transaction_start_time.timestamp() * 1000)


async def ask_list(wire: WireClient, *, version: int = NEWEST_LIST, **filters: Any) -> Any:
    fields: dict[str, Any] = {"state_filters": (), "producer_id_filters": ()}
    if version >= 1:
        fields["duration_filter"] = -1
    if version >= NEWEST_LIST:
        fields["transactional_id_pattern"] = None
    request = request_entities(LIST_TRANSACTIONS, version).ListTransactionsRequest
    return await wire.ask(request(**(fields | filters)))


async def listed(wire: WireClient, prefix: str, **filters: Any) -> dict[str, str]:
    """Return the state of each transactional id that begins with `prefix`."""
    response = await ask_list(wire, **filters)
    assert (response.error_code, response.unknown_state_filters) == (NONE, ())
    return {
        one.transactional_id: one.transaction_state
        for one in response.transaction_states
        if one.transactional_id.startswith(prefix)
    }


async def test_a_transaction_is_described_from_beginning_to_end(
    wire: WireClient, topic: str
) -> None:
    # Given a producer that has just been told who it is
    await wire.create_topic(topic, 3)
    producer = await transactional(wire, topic, timeout_ms=50_000)
    (empty,) = await describe(wire, topic)
    assert (empty.error_code, empty.transactional_id) == (NONE, topic)
    assert empty.transaction_state == "Empty"
    assert (empty.producer_id, empty.producer_epoch) == (producer.producer_id, producer.epoch)
    assert empty.transaction_timeout == milliseconds(50_000)
    assert (started_ms(empty), empty.topics) == (0, ())

    # When it writes to two partitions
    began_s = time.time()
    for partition in (2, 0):
        assert (await producer.produce(topic, b"x", partition=partition)).error_code is NONE
    (ongoing,) = await describe(wire, topic)

    # Then these are part of its transaction, which began just now
    assert ongoing.transaction_state == "Ongoing"
    assert [(one.topic, sorted(one.partitions)) for one in ongoing.topics] == [(topic, [0, 2])]
    assert abs(started_ms(ongoing) / 1000 - began_s) < PATIENCE_S

    # When it has ended, then nothing is part of it, and the producer goes on as somebody new
    for committed, state in ((True, "CompleteCommit"), (False, "CompleteAbort")):
        assert (await producer.produce(topic, b"x")).error_code is NONE
        assert await producer.end(committed=committed) is NONE
        (ended,) = await describe(wire, topic)
        assert (ended.transaction_state, ended.topics) == (state, ())
        assert (ended.producer_id, ended.producer_epoch) == (producer.producer_id, producer.epoch)


async def test_each_transactional_id_answers_for_itself(wire: WireClient, topic: str) -> None:
    await transactional(wire, topic)
    answers = await describe(wire, f"{topic}-no", topic, "")
    assert [(one.transactional_id, one.error_code) for one in answers] == [
        (f"{topic}-no", ErrorCode.transactional_id_not_found),
        (topic, NONE),
        ("", ErrorCode.invalid_request),
    ]


async def test_what_is_named_twice_is_described_once(wire: WireClient, topic: str) -> None:
    # Given a transaction with a partition
    await wire.create_topic(topic, 2)
    producer = await transactional(wire, topic)
    assert (await producer.produce(topic, b"x")).error_code is NONE

    # When it is named three times, then it is described once, in the order of the request
    answers = await describe(wire, topic, f"{topic}-no", topic, topic)
    assert [one.transactional_id for one in answers] == [topic, f"{topic}-no"]

    # And so are the producers of a partition, though one topic is told in two pieces
    module = request_entities(DESCRIBE_PRODUCERS, 0)
    asked = [module.TopicRequest(name=topic, partition_indexes=some) for some in ((0, 0), (1, 0))]
    (answer,) = (await wire.ask(module.DescribeProducersRequest(topics=tuple(asked)))).topics
    assert [(one.partition_index, len(one.active_producers)) for one in answer.partitions] == [
        (0, 1),
        (1, 0),
    ]


async def test_a_deleted_topic_is_not_shown(wire: WireClient, topic: str) -> None:
    # Given a transaction with two topics, one of which is deleted
    producer = await transactional(wire, topic)
    for name in (topic, f"{topic}-gone"):
        await wire.create_topic(name)
        assert (await producer.produce(name, b"x")).error_code is NONE
    module = request_entities(20, 6)
    deletion = module.DeleteTopicState(name=f"{topic}-gone", topic_id=None)
    await wire.ask(module.DeleteTopicsRequest(topics=(deletion,), timeout=milliseconds(1000)))

    (ongoing,) = await describe(wire, topic)
    assert [one.topic for one in ongoing.topics] == [topic]


async def test_producers_of_a_partition(wire: WireClient, topic: str) -> None:
    # Given a partition that two producers have written to, one of whom has ended its transaction
    await wire.create_topic(topic, 2)
    first = await transactional(wire, f"{topic}-1")
    second = await transactional(wire, f"{topic}-2")
    await first.produce(topic, b"0", b"1")
    await second.produce(topic, b"2")
    assert await first.end(committed=True) is NONE
    ended_epoch = first.epoch

    # When it is described
    of_both, of_nobody, unknown = await describe_producers(wire, topic, 0, 1, 2)

    # Then both are there, with where the one's open transaction begins
    assert (of_both.partition_index, of_both.error_code) == (0, NONE)
    states = {one.producer_id: one for one in of_both.active_producers}
    assert states.keys() == {first.producer_id, second.producer_id}
    ended, open_ = states[first.producer_id], states[second.producer_id]
    assert (ended.producer_epoch, ended.current_txn_start_offset) == (ended_epoch, -1)
    assert (open_.producer_epoch, open_.current_txn_start_offset) == (second.epoch, 2)
    assert (ended.last_sequence, open_.last_sequence) == (-1, 0)
    assert open_.coordinator_epoch == -1
    assert abs(open_.last_timestamp / 1000 - time.time()) < PATIENCE_S

    # and partitions without producers, or that do not exist, say so
    assert (of_nobody.error_code, of_nobody.active_producers) == (NONE, ())
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    (nothing,) = await describe_producers(wire, f"{topic}-no", 0)
    assert nothing.error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", range(NEWEST_LIST + 1))
async def test_transactions_are_listed_by_state_and_producer(
    wire: WireClient, topic: str, version: int
) -> None:
    # Given one transactional id that has done nothing yet, and one with an open transaction
    await wire.create_topic(topic)
    idle, busy = f"{topic}-idle", f"{topic}-busy"
    producers = {name: await transactional(wire, name) for name in (idle, busy)}
    assert (await producers[busy].produce(topic, b"x")).error_code is NONE

    # Then they are listed with their states, and each filter leaves out what it does not name
    async def found(**filters: Any) -> dict[str, str]:
        return await listed(wire, topic, version=version, **filters)

    assert await found() == {idle: "Empty", busy: "Ongoing"}
    assert await found(state_filters=("Ongoing", "PrepareCommit")) == {busy: "Ongoing"}
    ids = (producers[idle].producer_id,)
    assert await found(producer_id_filters=ids) == {idle: "Empty"}
    assert await found(producer_id_filters=ids, state_filters=("Ongoing",)) == {}


async def test_states_that_there_are_not_are_told(wire: WireClient, topic: str) -> None:
    await transactional(wire, topic)
    response = await ask_list(wire, state_filters=("Nothing", "Dead", "empty"))
    assert response.error_code is NONE
    assert set(response.unknown_state_filters) == {"Nothing", "empty"}
    assert response.transaction_states == ()


async def test_transactions_are_listed_by_how_long_they_run(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    producer = await transactional(wire, topic)
    assert await listed(wire, topic, duration_filter=0, state_filters=("Ongoing",)) == {}
    assert (await producer.produce(topic, b"x")).error_code is NONE

    async with asyncio.timeout(PATIENCE_S):
        while await listed(wire, topic, duration_filter=50) == {}:
            await asyncio.sleep(0.01)
    assert await listed(wire, topic, duration_filter=100_000) == {}


async def test_transactions_are_listed_by_a_pattern(wire: WireClient, topic: str) -> None:
    for name in (f"{topic}-a1", f"{topic}-b1"):
        await transactional(wire, name)

    async def found(pattern: str) -> set[str]:
        return set(await listed(wire, topic, transactional_id_pattern=pattern))

    assert await found(f"{topic}-[a-z]1") == {f"{topic}-a1", f"{topic}-b1"}
    assert await found(f"{topic}-a.*") == {f"{topic}-a1"}
    assert await found(f"{topic}-") == set()
    assert await found("") == {f"{topic}-a1", f"{topic}-b1"}

    refused = await ask_list(wire, transactional_id_pattern="(")
    assert refused.error_code is ErrorCode.invalid_regular_expression


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[BrokerProcess]]:
    """Return two brokers on one Postgres and one store."""
    with ThreadPoolExecutor() as pool:
        dsn = pool.submit(asyncio.run, create_empty_database()).result()
        shared = ("--postgres", dsn, "--store", f"file://{tmp_path / 'objects'}")
        starting = [pool.submit(start_broker, tmp_path / name, *shared) for name in ("one", "two")]
        brokers = [one.result() for one in starting]
    yield brokers
    for broker in brokers:
        broker.stop()


async def test_of_two_brokers_one_answers_what_only_one_may(
    pair: list[BrokerProcess], topic: str
) -> None:
    names = {f"t-{number}" for number in range(20)}
    one, two = pair
    async with (
        await WireClient.connect(one.bootstrap) as here,
        await WireClient.connect(two.bootstrap) as there,
    ):
        # Given many transactional ids, a topic with partitions at both brokers, and one that has
        # a replica of each partition at both
        async with asyncio.timeout(PATIENCE_S):
            for each in (here, there):
                while len((await each.describe("no")).brokers) < 2:
                    await asyncio.sleep(0.01)
            for name, replication_factor in ((topic, 1), (f"{topic}-2", 2)):
                await here.create_topic(name, 20, replication_factor)
                while (await there.describe(name)).topics[0].error_code:
                    await asyncio.sleep(0.01)
        for name in names:
            await transactional(here, name)

        # Then each id is listed by one of them, and described by both
        lists = [set(await listed(each, "t-")) for each in (here, there)]
        assert all(lists)
        assert set.union(*lists) == names
        assert not set.intersection(*lists)
        for each in (here, there):
            assert {state.error_code for state in await describe(each, *names)} == {NONE}

        # and each partition's producers are told by its replicas only
        async def told(name: str) -> list[set[ErrorCode]]:
            codes = [
                [answer.error_code for answer in await describe_producers(each, name, *range(20))]
                for each in (here, there)
            ]
            return [set(pair) for pair in zip(*codes, strict=True)]

        assert await told(topic) == [{NONE, ErrorCode.not_leader_or_follower}] * 20
        assert await told(f"{topic}-2") == [{NONE}] * 20
