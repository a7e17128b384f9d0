"""What clients of transactions are told while Postgres does not answer, over the wire."""

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from tests.support.broker import BrokerProcess
from tests.support.row_locks import locked
from tests.support.transaction_wire import (
    COMMIT,
    TransactionalProducer,
    add_offsets_request,
    add_partitions_request,
    added,
    end_request,
    init_request,
    marked,
    markers_request,
    read_log,
)
from tests.support.wire import WireClient

UNAVAILABLE = ErrorCode.coordinator_not_available


async def test_every_step_may_be_asked_for_again(
    broker: BrokerProcess, wire: WireClient, topic: str
) -> None:
    # Given a transaction
    await wire.create_topic(topic)
    producer = TransactionalProducer(wire, f"id-of-{topic}", transaction_version=1)
    await producer.init()
    await producer.add(topic, 0)
    await producer.produce(topic, b"a")
    who = producer.identity

    async def ask(request: Any) -> Any:
        async with await WireClient.connect(broker.bootstrap) as client:
            return await client.ask(request)

    # When Postgres gives no answer to anything about it
    async with locked(broker, "transactions WHERE transactional_id = $1", who.transactional_id):
        answers = await asyncio.gather(
            ask(init_request(who.transactional_id)),
            ask(add_offsets_request(who, "group")),
            ask(end_request(who, committed=True)),
            ask(add_partitions_request(who, {topic: [0]})),
            ask(markers_request(who.producer_id, who.epoch, {topic: [0]})),
        )

    # Then clients are told to look for the coordinator, and tools to look for the leader
    *coordinated, partitions, markers = answers
    assert [answer.error_code for answer in coordinated] == [UNAVAILABLE] * 3
    assert added(partitions.results_by_topic_v3_and_below) == {(topic, 0): UNAVAILABLE}
    assert marked(markers) == {(topic, 0): ErrorCode.broker_not_available}

    # And nothing of it has happened
    assert await producer.end(committed=True) is ErrorCode.none
    assert await read_log(wire, topic) == [(0, b"a"), (1, COMMIT)]
