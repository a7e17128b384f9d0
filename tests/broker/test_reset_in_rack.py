"""A consumer that names its rack, and where it is in the log there is nothing, or nothing any more.

Clients begin anew, as auto.offset.reset says, only if the leader says that they are out of range.
If another broker says so, they ask the leader again (KIP-392).
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.broker.admin.pair import start_pair
from tests.broker.test_delete_records import delete
from tests.support.postgres import create_empty_database
from tests.support.wire import WireClient, fetch_request

NONE, OUT_OF_RANGE = ErrorCode.none, ErrorCode.offset_out_of_range
BATCH: Final = build_batch([Record(offset_delta=0, value=b"a")])
NOBODY: Final = -1
PATIENCE_S: Final = 20.0


@pytest.fixture
async def described(tmp_path: Path, topic: str) -> AsyncIterator[Any]:
    """Return two brokers of two racks and a topic of three records, as Metadata tells of them."""
    pair = await start_pair(tmp_path, await create_empty_database())
    try:
        async with await WireClient.connect(pair.brokers[0].bootstrap) as wire:
            await wire.create_topic(topic)
            for _ in range(3):
                assert (await wire.produce(topic, BATCH)).error_code == NONE
            yield await wire.describe(topic)
    finally:
        codes = [broker.stop() for broker in pair.brokers]
    assert codes == [0, 0]


def leader_and_other(described: Any) -> list[Any]:
    leader_id = described.topics[0].partitions[0].leader_id
    return sorted(described.brokers, key=lambda broker: broker.node_id != leader_id)


async def test_the_leader_says_itself_what_is_out_of_range(described: Any, topic: str) -> None:
    # Given a log that does not begin at 0 any more, which the leader has not heard yet
    leader, other = leader_and_other(described)
    async with await WireClient.connect(f"{other.host}:{other.port}") as wire:
        assert (await delete(wire, {topic: {0: 1}}))[topic] == {0: (1, NONE)}
    async with await WireClient.connect(f"{leader.host}:{leader.port}") as wire:
        # When a consumer in the other rack asks for what is not in the log, and then for what is
        told, session_id = [], 0
        for epoch, offset in enumerate((0, 1_000, 1)):
            wanted = fetch_request(
                [(topic, 0, offset)], rack=other.rack, session_id=session_id, session_epoch=epoch
            )
            response = await wire.ask(wanted)
            session_id = response.session_id
            (answer,) = response.responses[0].partitions
            told.append((answer.error_code, answer.preferred_read_replica))

    # Then it is sent to its rack only where it can read on there
    assert told == [(OUT_OF_RANGE, NOBODY), (OUT_OF_RANGE, NOBODY), (NONE, other.node_id)]


@pytest.mark.parametrize("offset", [0, 1_000])
async def test_a_stock_consumer_begins_anew(described: Any, topic: str, offset: int) -> None:
    # Given a consumer in the rack of another broker than the leader
    leader, other = leader_and_other(described)
    async with await WireClient.connect(f"{other.host}:{other.port}") as wire:
        await delete(wire, {topic: {0: 1}})
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "client.rack": other.rack}
    consumer = Consumer({"bootstrap.servers": f"{leader.host}:{leader.port}", **settings})

    # When it begins where there is nothing
    consumer.assign([TopicPartition(topic, 0, offset)])
    message = await asyncio.to_thread(consumer.poll, PATIENCE_S)
    consumer.close()

    # Then it goes to the earliest record
    assert message is not None
    assert message.offset() == 1
