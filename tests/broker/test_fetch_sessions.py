"""Fetch sessions over the wire (KIP-227): how they begin, go on and end.

What Apache Kafka answers to the same requests is compared in tests/oracle (corpus_fetch.py).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker.fetch_session import LAST_EPOCH, FetchSession
from broker.fetch_sessions import MOST_OF_A_CONNECTION, MOST_PARTITIONS, FetchSessions
from broker.network.client_session import ClientSession
from broker.refusals import Refusal
from protocol.fetch import FetchRequest, PartitionWanted, TopicForgotten, TopicWanted
from protocol.records import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.wire import WireClient, fetch_request, milliseconds, request_entities

BATCH: Final = build_batch([Record(offset_delta=0, value=b"v")])
WAIT_MS: Final = 60_000
FIRST_SESSIONS: Final = 7

Told = dict[tuple[str | UUID, int], int]
"""The error code of each partition that is named in an answer."""


class Reader:
    """One session of a client."""

    def __init__(self, client: WireClient, version: int) -> None:
        self.client = client
        self.session_id = 0
        self._version = version
        self._epoch = 0

    async def fetch(
        self,
        *wanted: tuple[str | UUID, int, int],
        forgotten: Sequence[tuple[str | UUID, int]] = (),
        max_wait_ms: int = 0,
    ) -> Any:
        """Name what changes; return the answer."""
        request = fetch_request(
            list(wanted),
            version=self._version,
            max_wait_ms=max_wait_ms,
            session_id=self.session_id,
            session_epoch=self._epoch,
            forgotten=forgotten,
        )
        answer = await self.client.ask(request)
        self.session_id = getattr(answer, "session_id", 0)  # none before v7
        self._epoch += 1
        return answer


def told(answer: Any) -> Told:
    return {
        (getattr(topic, "topic", None) or topic.topic_id, one.partition_index): one.error_code
        for topic in answer.responses
        for one in topic.partitions
    }


@pytest.fixture
async def other(broker: BrokerProcess) -> AsyncIterator[WireClient]:
    async with await WireClient.connect(broker.bootstrap) as client:
        yield client


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
async def test_only_what_is_new_is_named_and_told(
    wire: WireClient, topic: str, version: int
) -> None:
    # Given a session over three partitions, which are told of when it begins
    await wire.create_topic(topic, 3)
    name = topic if version < 13 else await wire.topic_id(topic)
    reader = Reader(wire, version)
    assert told(await reader.fetch(*[(name, index, 0) for index in range(3)])) == {
        (name, index): 0 for index in range(3)
    }
    session_id = reader.session_id
    assert session_id > 0

    # When there is nothing new, then nothing is told
    assert not (await reader.fetch(max_wait_ms=10)).responses

    # When a record comes, then it is told of its partition, until the client has read on
    await wire.produce(topic, BATCH, partition=1)
    for _ in range(2):
        answer = await reader.fetch(max_wait_ms=WAIT_MS)
        assert told(answer) == {(name, 1): 0}
        assert answer.responses[0].partitions[0].records
    assert not (await reader.fetch((name, 1, 1))).responses

    # When the client does not want another one any more, then it is not told of that
    await wire.produce(topic, BATCH, partition=2)
    assert not (await reader.fetch(forgotten=[(name, 2)])).responses
    assert told(await reader.fetch((name, 2, 0))) == {(name, 2): 0}
    assert reader.session_id == session_id


async def test_a_session_ends_with_its_connection(
    broker: BrokerProcess, wire: WireClient, other: WireClient, topic: str
) -> None:
    await wire.create_topic(topic)
    reader = Reader(wire, 12)
    await reader.fetch((topic, 0, 0))
    reader.client = other
    assert (await reader.fetch()).error_code == ErrorCode.fetch_session_id_not_found


async def test_who_wants_nothing_does_not_wait(wire: WireClient, topic: str) -> None:
    # Given two sessions
    await wire.create_topic(topic)
    one, other = Reader(wire, 12), Reader(wire, 12)
    for reader in (one, other):
        await reader.fetch((topic, 0, 0))

    # When a Fetch gives up all of one, another ends the other, as a consumer does that closes, and
    # more want nothing from the beginning, then there is nothing that they could wait for
    async with asyncio.timeout(WAIT_MS / 2_000):
        assert not (await one.fetch(forgotten=[(topic, 0)], max_wait_ms=WAIT_MS)).responses
        for session_id, epoch in ((other.session_id, -1), (0, -1), (0, 0)):
            nothing = fetch_request(
                [],
                version=12,
                max_wait_ms=WAIT_MS,
                session_id=session_id,
                session_epoch=epoch,
            )
            assert not (await wire.ask(nothing)).responses


@pytest.mark.parametrize("version", [4, 12, 13])
async def test_what_is_refused_for_good_waits_with_the_others(
    wire: WireClient, other: WireClient, topic: str, version: int
) -> None:
    # Given a reader of a topic, and of one that is not there
    await wire.create_topic(topic)
    both: list[tuple[str | UUID, int, int]] = [(topic, 0, 0), ("no-such-topic", 0, 0)]
    refused = ErrorCode.unknown_topic_or_partition
    if version >= 13:
        both = [(await wire.topic_id(topic), 0, 0), (UUID(int=77), 0, 0)]
        refused = ErrorCode.unknown_topic_id
    reader = Reader(wire, version)
    began_s = asyncio.get_running_loop().time()
    first = told(await reader.fetch(*both, max_wait_ms=500))

    # Then it has waited for records, and is told with the end of that, or with the records
    assert asyncio.get_running_loop().time() - began_s >= 0.5
    assert first == {(both[0][0], 0): 0, (both[1][0], 0): refused}
    again = both if version < FIRST_SESSIONS else []
    waiting = asyncio.create_task(reader.fetch(*again, max_wait_ms=WAIT_MS))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await other.produce(topic, BATCH)
    async with asyncio.timeout(WAIT_MS / 2_000):
        answer = await waiting
    assert told(answer) == first
    assert sum(len(one.records or b"") for of in answer.responses for one in of.partitions)


async def test_topics_that_go_and_come_are_told_of(
    wire: WireClient, other: WireClient, topic: str
) -> None:
    # Given a session by name and one by id, that know that there is nothing
    await wire.create_topic(topic)
    topic_id = await wire.topic_id(topic)
    by_name, by_id = Reader(wire, 12), Reader(other, 13)
    await by_name.fetch((topic, 0, 0))
    await by_id.fetch((topic_id, 0, 0))

    # When the topic is deleted, then both are told so, each time
    await delete_topic(wire, topic)
    for _ in range(2):
        unknown = ErrorCode.unknown_topic_or_partition
        assert told(await by_name.fetch(max_wait_ms=WAIT_MS)) == {(topic, 0): unknown}
        assert told(await by_id.fetch(max_wait_ms=WAIT_MS)) == {
            (topic_id, 0): ErrorCode.unknown_topic_id
        }

    # When there is another one of that name, then the name is that of it
    await wire.create_topic(topic)
    await wire.produce(topic, BATCH)
    assert told(await by_name.fetch()) == {(topic, 0): 0}
    assert told(await by_id.fetch()) == {(topic_id, 0): ErrorCode.unknown_topic_id}


async def test_a_partition_that_is_not_there_yet_is_told_of_when_it_is(
    wire: WireClient, topic: str
) -> None:
    await wire.create_topic(topic)
    reader = Reader(wire, 12)
    assert told(await reader.fetch((topic, 0, 0), (topic, 1, 0))) == {
        (topic, 0): 0,
        (topic, 1): ErrorCode.unknown_topic_or_partition,
    }
    await grow_topic(wire, topic, 2)
    assert told(await reader.fetch()) == {(topic, 1): 0}
    assert not (await reader.fetch()).responses


async def delete_topic(wire: WireClient, name: str) -> None:
    module = request_entities(20, 5)
    request = module.DeleteTopicsRequest(topic_names=(name,), timeout=milliseconds(10_000))
    (result,) = (await wire.ask(request)).responses
    assert result.error_code == 0


async def grow_topic(wire: WireClient, name: str, partitions: int) -> None:
    module = request_entities(37, 3)
    grown = module.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = module.CreatePartitionsRequest(
        topics=(grown,), timeout=milliseconds(10_000), validate_only=False
    )
    (result,) = (await wire.ask(request)).results
    assert result.error_code == 0


# --- how many of them there may be


def fetch_of(
    count: int, *, session_id: int = 0, epoch: int = 0, forgotten: int = 0, name: str = "t"
) -> FetchRequest:
    wanted = [PartitionWanted(index, -1, 0, 1) for index in range(count)]
    return FetchRequest(
        *(0, 1, 1, 0, session_id, epoch),
        topics=[TopicWanted(name, None, wanted)] if count else [],
        forgotten=[TopicForgotten(name, None, range(forgotten))],
    )


def begun(sessions: FetchSessions, client: ClientSession, fetch: FetchRequest) -> FetchSession:
    session = sessions.take(client, fetch, by_topic_id=False)
    assert session is not None
    return session


def test_there_is_room_for_so_many_partitions() -> None:
    # Given sessions of two clients that take all but one of the places
    sessions, one, other = FetchSessions(), ClientSession(), ClientSession()
    large = begun(sessions, one, fetch_of(MOST_PARTITIONS - 4))
    small = begun(sessions, other, fetch_of(3))

    # Then who comes with more has no session
    assert sessions.take(other, fetch_of(2), by_topic_id=False) is None

    # And who wants more than that in a session loses it
    more = fetch_of(5, session_id=small.session_id, epoch=1)
    with pytest.raises(Refusal) as refused:
        sessions.take(other, more, by_topic_id=False)
    assert refused.value.code == ErrorCode.fetch_session_id_not_found
    assert sessions.partition_count == MOST_PARTITIONS - 4

    # And what a client gives up, others can have, and all that one had who is gone
    less = fetch_of(0, session_id=large.session_id, epoch=1, forgotten=10)
    assert sessions.take(one, less, by_topic_id=False) is large
    begun(sessions, other, fetch_of(14))
    one.end()
    assert sessions.partition_count == 14
    other.end()
    assert sessions.partition_count == 0


def test_a_connection_has_a_few_sessions_and_loses_the_oldest() -> None:
    sessions, client = FetchSessions(), ClientSession()
    ids = [begun(sessions, client, fetch_of(1)).session_id for _ in range(MOST_OF_A_CONNECTION + 1)]
    assert len(set(ids)) == len(ids)
    assert sessions.partition_count == MOST_OF_A_CONNECTION
    with pytest.raises(Refusal):
        sessions.take(client, fetch_of(0, session_id=ids[0], epoch=1), by_topic_id=False)
    for session_id in ids[1:]:
        sessions.take(client, fetch_of(0, session_id=session_id, epoch=1), by_topic_id=False)


def test_names_that_no_topic_has_are_not_kept() -> None:
    sessions, client = FetchSessions(), ClientSession()
    assert sessions.take(client, fetch_of(1, name="x" * 250), by_topic_id=False) is None
    session_id = begun(sessions, client, fetch_of(1, name="x" * 249)).session_id
    more = fetch_of(1, session_id=session_id, epoch=1, name="y" * 250)
    with pytest.raises(Refusal):
        sessions.take(client, more, by_topic_id=False)
    assert sessions.partition_count == 0


def test_epochs_begin_again_after_the_last_one() -> None:
    sessions, client = FetchSessions(), ClientSession()
    session = begun(sessions, client, fetch_of(1))
    session.epoch = LAST_EPOCH
    for epoch in (LAST_EPOCH, 1, 2):
        again = fetch_of(0, session_id=session.session_id, epoch=epoch)
        assert sessions.take(client, again, by_topic_id=False) is session
