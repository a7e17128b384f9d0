"""Transactions in which several brokers have a hand: one ends them, others lead the partitions."""

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final
from urllib.request import urlopen

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from tests.broker.admin.questions import create, delete
from tests.broker.admin.wire import Wire
from tests.support.broker import BrokerProcess
from tests.support.committed_reader import CommittedReader
from tests.support.three_brokers import Trio, leader_first, three_brokers
from tests.support.transaction_wire import (
    READ_COMMITTED,
    TransactionalProducer,
    add_several_request,
    added,
)
from tests.support.wire import WireClient, fetch_request

TRANSACTIONS: Final = 20
MADE_AGAIN: Final = 3  # one of which a broker hears at once, if its look of once a second is due
LONG_MS: Final = 60_000
SEEN_S: Final = 15.0  # far more than the poll of 0.1 s needs: the machine may be busy


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    with three_brokers(tmp_path_factory.mktemp("trio")) as trio:
        yield trio


async def fetch(wire: WireClient, topic: str, offset: int, *, max_wait_ms: int) -> Any:
    request = fetch_request([(topic, 0, offset)], max_wait_ms=max_wait_ms)
    request = replace(request, isolation_level=i8(READ_COMMITTED))
    return (await wire.ask(request)).responses[0].partitions[0]


def bytes_read_from_objects(broker: BrokerProcess) -> float:
    with urlopen(f"http://{broker.http}/metrics", timeout=10) as response:
        text = response.read().decode()
    found = re.search(r"^streamhouse_object_get_bytes_total (\S+)", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


async def test_a_reader_at_the_end_hears_of_ends_elsewhere(trio: Trio, topic: str) -> None:
    leader, other, _ = await leader_first(trio, topic)
    before = bytes_read_from_objects(leader)
    async with (
        await WireClient.connect(leader.bootstrap) as wire,
        await WireClient.connect(leader.bootstrap) as consumer,
        await WireClient.connect(other.bootstrap) as elsewhere,
    ):
        # Given a producer that writes where the partition is led
        producer = TransactionalProducer(wire, f"id-of-{topic}")
        await producer.init()
        reader, expected = CommittedReader(), list[bytes]()
        for number in range(TRANSACTIONS):
            # When a transaction is ended by another broker, while a consumer waits
            value, committed = b"%d" % number, number % 3 > 0
            assert (await producer.produce(topic, value)).error_code is ErrorCode.none
            poll = fetch(consumer, topic, reader.position, max_wait_ms=LONG_MS)
            waiting = asyncio.create_task(poll)
            producer.wire = elsewhere
            assert await producer.end(committed=committed) is ErrorCode.none
            began = time.monotonic()
            producer.wire = wire
            expected += [value] if committed else []
            if number % 2:  # the leader hears of the end by its next commit, or by its poll
                await producer.produce(topic, b"next of %d" % number)
                await producer.end(committed=False)

            # Then the consumer hears of it soon, and gets what was committed
            while True:
                fetched = await waiting
                aborted = fetched.aborted_transactions or ()
                reader.take(
                    bytes(fetched.records or b""),
                    [(one.producer_id, one.first_offset) for one in aborted],
                )
                if reader.position > 2 * number and reader.received() == expected:
                    break
                assert time.monotonic() - began < SEEN_S
                poll = fetch(consumer, topic, reader.position, max_wait_ms=LONG_MS)
                waiting = asyncio.create_task(poll)
            assert time.monotonic() - began < SEEN_S

    # And for all of it no object was read: markers lie in the index
    assert bytes_read_from_objects(leader) == before


async def test_a_topic_that_was_made_again_is_added_by_who_has_not_heard_of_it(
    trio: Trio, topic: str
) -> None:
    # Given a topic that all brokers know, and a client that adds partitions by itself
    maker, other, _ = await leader_first(trio, topic)
    async with (
        await WireClient.connect(maker.bootstrap) as wire,
        await WireClient.connect(other.bootstrap) as elsewhere,
    ):
        producer = TransactionalProducer(elsewhere, f"id-of-{topic}", transaction_version=1)
        await producer.init()
        for _ in range(MADE_AGAIN):
            # When another broker has just made it again, and the client adds its partition
            tool = Wire("127.0.0.1", maker.port)
            await asyncio.to_thread(delete, tool, topic)
            await asyncio.to_thread(create, tool, topic)
            assert await producer.add(topic, 0) is ErrorCode.none

            # Then the new topic's is part of the transaction
            asked = add_several_request((producer.identity, {topic: [0]}), verify_only=True)
            (result,) = (await wire.ask(asked)).results_by_transaction
            assert added(result.topic_results) == {(topic, 0): ErrorCode.none}
            assert await producer.end(committed=True) is ErrorCode.none
