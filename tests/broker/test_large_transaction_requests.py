"""The APIs of transactions with thousands of elements keep the event loop from nobody for long.

Large requests are decoded, and large answers encoded, with turns for others. So these tests look at
the processor time that the event loop takes between two answers to somebody else.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import asyncpg
import psutil
import pytest
from kio.schema.errors import ErrorCode

from storage.postgres.postgres_binaries import unix_socket_dsn
from tests.support.broker import BrokerProcess, running_broker
from tests.support.group_wire import named
from tests.support.transaction_wire import (
    Identity,
    add_partitions_request,
    added,
    marked,
    markers_request,
)
from tests.support.wire import WireClient, request_entities

API_VERSIONS: Final = 18
DESCRIBE_PRODUCERS: Final = 61
DESCRIBE_TRANSACTIONS: Final = 65
PARTITIONS: Final = 10_000
NOWHERE: Final = {f"no-{number}": range(PARTITIONS) for number in range(8)}
"""Partitions of topics that nobody makes."""
LONGEST_S: Final = 0.1
"""Of the event loop's processor time; each of these took twice as much or more in one turn."""
ATTEMPTS: Final = 5
"""A client that has no processor for a moment takes several turns for one, now and then. What takes
too long in one turn does so each time."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("large")) as broker:
        yield broker


def loop_s(broker: BrokerProcess) -> float:
    """Return the processor time that the event loop's thread has taken."""
    loop = next(one for one in psutil.Process(broker.pid).threads() if one.id == broker.pid)
    return float(loop.user_time + loop.system_time)


async def longest_turn(broker: BrokerProcess, request: Any) -> tuple[Any, float]:
    """Ask for much, and for little on another connection until that is there, some times.

    Returns:
        The answer, and the most time that the event loop took before it answered the other: the
        least of that of all attempts, of which there are no more than needed.
    """
    answer, least_s = await longest_turn_once(broker, request)
    for _ in range(ATTEMPTS - 1):
        if least_s < LONGEST_S:
            break
        answer, longest_s = await longest_turn_once(broker, request)
        least_s = min(least_s, longest_s)
    return answer, least_s


async def longest_turn_once(broker: BrokerProcess, request: Any) -> tuple[Any, float]:
    async with (
        await WireClient.connect(broker.bootstrap) as large,
        await WireClient.connect(broker.bootstrap) as small,
    ):
        asked = asyncio.create_task(large.ask(request))
        await asyncio.sleep(0)
        versions = request_entities(API_VERSIONS, 0).ApiVersionsRequest()
        longest_s, before_s = 0.0, loop_s(broker)
        while not asked.done():
            await small.ask(versions)
            now_s = loop_s(broker)
            longest_s, before_s = max(longest_s, now_s - before_s), now_s
        return await asked, longest_s


@pytest.mark.parametrize("transactional_id", ["id", ""])
async def test_partitions_are_added_to_a_transaction(
    large: BrokerProcess, transactional_id: str
) -> None:
    request = add_partitions_request(Identity(transactional_id, 1, 0), NOWHERE)
    answer, longest_s = await longest_turn(large, request)
    code = ErrorCode.unknown_topic_or_partition if transactional_id else ErrorCode.invalid_request
    expected = {(name, index): code for name, indexes in NOWHERE.items() for index in indexes}
    assert added(answer.results_by_topic_v3_and_below) == expected
    assert longest_s < LONGEST_S


async def test_markers_are_asked_for(large: BrokerProcess) -> None:
    answer, longest_s = await longest_turn(large, markers_request(1, 0, NOWHERE))
    assert set(marked(answer).values()) == {ErrorCode.unknown_topic_or_partition}
    assert longest_s < LONGEST_S


async def test_transactions_are_described(large: BrokerProcess) -> None:
    names = tuple(f"id-{number}" for number in range(3 * PARTITIONS))
    request = named(DESCRIBE_TRANSACTIONS, 0, transactional_ids=names)
    answer, longest_s = await longest_turn(large, request)
    assert [state.transactional_id for state in answer.transaction_states] == list(names)
    assert longest_s < LONGEST_S


def producers_request(topics: dict[str, int]) -> Any:
    module = request_entities(DESCRIBE_PRODUCERS, 0)
    asked = [
        module.TopicRequest(name=name, partition_indexes=tuple(range(partitions)))
        for name, partitions in topics.items()
    ]
    return module.DescribeProducersRequest(topics=tuple(asked))


async def test_producers_of_partitions_that_there_are_not(large: BrokerProcess) -> None:
    request = producers_request({name: len(indexes) for name, indexes in NOWHERE.items()})
    answer, longest_s = await longest_turn(large, request)
    codes = {one.error_code for topic in answer.topics for one in topic.partitions}
    assert codes == {ErrorCode.unknown_topic_or_partition}
    assert longest_s < LONGEST_S


async def write_producers(broker: BrokerProcess, topic: str, partitions: int, each: int) -> None:
    """Make a topic, and leave what so many producers of each partition would have left."""
    async with await WireClient.connect(broker.bootstrap) as client:
        await client.create_topic(topic, partitions)
    connection = await asyncpg.connect(unix_socket_dsn(broker.log.parent / "postgres"))
    await connection.execute(f"""
        INSERT INTO streamhouse_internal.producers (
            topic_id, partition, producer_id, producer_epoch, last_sequence, next_slot,
            first_sequences, last_sequences, base_offsets
        )
        SELECT t.topic_id, p, i, 0, 7, 2, f, l, f
        FROM streamhouse_internal.topics AS t, generate_series(0, {partitions - 1}) AS p,
            generate_series(1, {each}) AS i,
            (VALUES ('{{0,-1,-1,-1,-1}}'::int[], '{{7,-1,-1,-1,-1}}'::int[])) AS s (f, l)
        WHERE t.name = '{topic}'
    """)
    await connection.close()


@pytest.mark.parametrize(("partitions", "each"), [(500, 100), (5, 30_000)])
async def test_producers_of_partitions(large: BrokerProcess, partitions: int, each: int) -> None:
    # Given many partitions with many producers, or few with those of a day that each wrote once
    topic = f"of-{each}"
    await write_producers(large, topic, partitions, each)

    # When a small request asks for all of them, then it gets them, and others their turns
    answer, longest_s = await longest_turn(large, producers_request({topic: partitions}))
    (described,) = answer.topics
    for one in described.partitions:
        assert [state.producer_id for state in one.active_producers] == list(range(1, each + 1))
    assert longest_s < LONGEST_S
