"""What requests under way hold of the memory that clients share, over the wire."""

import asyncio
from typing import Final

from broker.network.memory import REQUEST_BYTES
from protocol.records import Record, build_batch
from tests.broker.test_http import get
from tests.support.broker import BrokerProcess
from tests.support.request_memory import held_bytes, until_held
from tests.support.row_locks import locked
from tests.support.wire import WireClient, encode_frame, fetch_request, produce_request

REQUESTS: Final = 2_000  # more than an object takes, and less than a connection may have in flight
BEGUN_S: Final = 20.0


async def test_all_of_a_producer_that_waits_for_no_answer_are_begun_and_counted(
    broker: BrokerProcess, wire: WireClient, topic: str
) -> None:
    # Given a topic that nothing can be committed to
    await wire.create_topic(topic)
    batch = build_batch([Record(offset_delta=0, value=b"v")])
    request = produce_request(topic, batch, timeout_ms=60_000)
    frames = [encode_frame(request, number) for number in range(REQUESTS)]
    async with locked(broker, "partitions WHERE topic_id = $1", await wire.topic_id(topic)):
        # When a client sends request after request
        await wire.send(b"".join(frames))

        # Then those behind do not wait for answers, and the broker knows what all take
        held = sum(map(len, frames)) - 4 * REQUESTS + REQUESTS * REQUEST_BYTES
        async with asyncio.timeout(BEGUN_S):
            while held_bytes(broker) < held:
                await asyncio.sleep(0.05)

    # When commits go on, then all are answered in order, each with an offset of its own
    for number in range(REQUESTS):
        correlation_id, response = await wire.receive(request)
        (answer,) = response.responses[0].partition_responses
        assert (correlation_id, answer.error_code, answer.base_offset) == (number, 0, number)
    await until_held(broker, 0, BEGUN_S)


async def test_a_consumer_that_waits_for_records_holds_nothing(
    broker: BrokerProcess, wire: WireClient, topic: str
) -> None:
    # Given a consumer that waits for a producer, who needs memory
    await wire.create_topic(topic)
    request = fetch_request([(topic, 0, 0)], max_wait_ms=60_000)
    async with await WireClient.connect(broker.bootstrap) as consumer:
        series = f'streamhouse_partition_high_watermark{{topic="{topic}"'
        assert series not in get(broker, "/metrics")
        waiting = asyncio.create_task(consumer.ask(request))

        # When it is served, by which its partition comes into use, then it soon holds none
        async with asyncio.timeout(BEGUN_S):
            while series not in get(broker, "/metrics"):
                await asyncio.sleep(0.05)
        await until_held(broker, 0, BEGUN_S)

        # And it has its answer all the same, not before there is a record
        await wire.produce(topic, build_batch([Record(offset_delta=0, value=b"v")]))
        (partition,) = (await waiting).responses[0].partitions
        assert (partition.error_code, partition.high_watermark) == (0, 1)
