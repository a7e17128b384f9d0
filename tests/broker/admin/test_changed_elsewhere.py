"""Topics that one broker has changed, and what clients do at once at another that serves them.

A client may give up on what it hears twice: sarama repeats a batch three times within 0.4 s.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.broker.admin.pair import Pair
from tests.broker.admin.questions import add_partitions, create, delete
from tests.broker.admin.wire import Api
from tests.support.host import Stopwatch
from tests.support.wire import WireClient, milliseconds

LATEST: Final = -1
REPEATED_AFTER_S: Final = 0.1
GIVEN_UP_AFTER_S: Final = 0.4
AGAIN: Final = range(2, 6)
"""Several times, since a broker may hear of a change by chance: it asks once in a second."""


def one_batch() -> bytes:
    return build_batch([Record(offset_delta=0, value=b"x")], base_timestamp_ms=1000)


async def produced(client: WireClient, topic: str, index: int) -> Any:
    return await client.produce(topic, one_batch(), partition=index)


async def fetched(client: WireClient, topic: str, index: int) -> Any:
    return await client.fetch(topic, 0, partition=index)


async def offset_of(client: WireClient, topic: str, index: int) -> Any:
    api = Api(2, 7)
    values = {"partition_index": index, "current_leader_epoch": -1, "timestamp": LATEST}
    asked = api.part(
        "ListOffsetsTopic", name=topic, partitions=(api.part("ListOffsetsPartition", **values),)
    )
    request = api.request(
        replica_id=-1, isolation_level=0, topics=(asked,), timeout=milliseconds(1000)
    )
    return (await client.ask(request)).topics[0].partitions[0]


async def records_deleted(client: WireClient, topic: str, index: int) -> Any:
    api = Api(21, 2)
    line = api.part("DeleteRecordsPartition", partition_index=index, offset=0)
    asked = api.part("DeleteRecordsTopic", name=topic, partitions=(line,))
    request = api.request(topics=(asked,), timeout=milliseconds(10_000))
    return (await client.ask(request)).topics[0].partitions[0]


@pytest.mark.parametrize("ask", [produced, fetched, offset_of, records_deleted])
async def test_partitions_that_were_just_added_are_there(
    pair: Pair, topic: str, ask: Callable[[WireClient, str, int], Awaitable[Any]]
) -> None:
    here, there = pair.wires[0], pair.brokers[1]
    assert create(here, topic).error_code is ErrorCode.none
    async with await WireClient.connect(there.bootstrap) as client:
        for count in AGAIN:
            # When a partition is added at one broker, then the other serves it
            assert add_partitions(here, topic, count).error_code is ErrorCode.none
            assert (await ask(client, topic, count - 1)).error_code is ErrorCode.none

        # And one that nobody has added is unknown
        unknown = await ask(client, topic, 77)
        assert unknown.error_code is ErrorCode.unknown_topic_or_partition


async def test_a_topic_that_was_just_made_again_takes_what_is_sent_again(
    pair: Pair, topic: str
) -> None:
    here, there = pair.wires[0], pair.brokers[1]
    assert create(here, topic).error_code is ErrorCode.none
    async with await WireClient.connect(there.bootstrap) as client:
        for _ in AGAIN:
            # When a topic is made again at one broker, and a batch for it comes to the other
            assert (await produced(client, topic, 0)).error_code is ErrorCode.none
            assert delete(here, topic)[0].error_code is ErrorCode.none
            assert create(here, topic).error_code is ErrorCode.none

            # Then it takes the batch before the client gives up
            assert await offset_of_repeated(client, topic) == 0


async def offset_of_repeated(client: WireClient, topic: str) -> int:
    """Send a batch until it is taken, as sarama does; return its offset."""
    stopwatch = Stopwatch()
    while (answer := await produced(client, topic, 0)).error_code is not ErrorCode.none:
        assert stopwatch.is_within(GIVEN_UP_AFTER_S), answer
        await asyncio.sleep(REPEATED_AFTER_S)
    return int(answer.base_offset)


async def test_a_topic_that_was_just_made_again_has_an_end(pair: Pair, topic: str) -> None:
    here, there = pair.wires[0], pair.brokers[1]
    assert create(here, topic).error_code is ErrorCode.none
    async with await WireClient.connect(there.bootstrap) as client:
        for _ in AGAIN:
            # When a topic with records is made again at one broker
            assert (await produced(client, topic, 0)).error_code is ErrorCode.none
            assert delete(here, topic)[0].error_code is ErrorCode.none
            assert create(here, topic).error_code is ErrorCode.none

            # Then the other tells where the new one ends
            end = await offset_of(client, topic, 0)
            assert (end.error_code, end.offset) == (ErrorCode.none, 0)

        # And when it is deleted for good, it has none
        assert delete(here, topic)[0].error_code is ErrorCode.none
        end = await offset_of(client, topic, 0)
        assert end.error_code is ErrorCode.unknown_topic_or_partition
