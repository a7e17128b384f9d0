"""What clients of transactions are told while Postgres does not answer, over the wire."""

import asyncio
from typing import Any

import asyncpg
from aiokafka import AIOKafkaProducer
from kio.schema.errors import ErrorCode

from sql import query
from storage.postgres.postgres_binaries import unix_socket_dsn
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
LONGER_THAN_A_ROW_IS_WAITED_FOR_S = 3.0


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


async def test_a_start_that_postgres_carries_out_late_fences_nobody(
    broker: BrokerProcess, wire: WireClient, topic: str
) -> None:
    # Given a producer that asked, and whose question stands still in a session of Postgres
    await wire.create_topic(topic)
    producer = TransactionalProducer(wire, f"id-of-{topic}", transaction_version=1)
    await producer.init()
    session = await asyncpg.connect(unix_socket_dsn(broker.log.parent / "postgres"))
    drawn = await session.fetchval(query("producer_allocate_ids"), 1)

    # When it asks again and gets its answer, and then that session goes on
    assert await producer.init(as_new=True) is ErrorCode.none
    await session.fetch(
        query("transaction_init_producer"), producer.transactional_id, 60_000, None, None, drawn
    )
    await session.close()

    # Then it goes on as it was told
    assert await producer.add(topic, 0) is ErrorCode.none


async def test_idempotent_producers_wait_for_their_id(
    broker: BrokerProcess, wire: WireClient, topic: str
) -> None:
    # Given a stock producer that begins while the row is held that ids are given out from
    await wire.create_topic(topic)
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
    async with locked(broker, "cluster"):
        starting = asyncio.create_task(producer.start())
        refused = await wire.ask(init_request(None))
        await asyncio.sleep(LONGER_THAN_A_ROW_IS_WAITED_FOR_S)

    # Then it hears of nothing that it gives up for (KAFKA-14417), and goes on when there are ids
    assert refused.error_code is ErrorCode.coordinator_load_in_progress
    async with asyncio.timeout(20):
        await starting
        assert (await producer.send_and_wait(topic, b"a")).offset == 0
        await producer.stop()
