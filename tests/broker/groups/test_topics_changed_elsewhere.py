"""Offsets of topics that were changed a moment ago, at another broker than the coordinator."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.groups.conftest import coordinator
from tests.support.broker import BrokerProcess
from tests.support.group_wire import codes, commit_request, committed, fetch_request, named
from tests.support.wire import WireClient, milliseconds, request_entities

NONE = ErrorCode.none
UNKNOWN_TOPIC = ErrorCode.unknown_topic_or_partition
CREATE_PARTITIONS = 37
DELETE_TOPICS = 20
PATIENCE_S = 30.0
AGAIN = range(2, 6)
"""Several times, since the coordinator may hear of a change by chance: it asks once in a second."""


@dataclass(slots=True)
class Topic:
    """A topic of two brokers: of the one that coordinates the group "g", and of the other."""

    here: WireClient
    there: WireClient
    name: str = "t"

    async def grow(self, count: int) -> None:
        """Add partitions at the other broker."""
        module = request_entities(CREATE_PARTITIONS, 3)
        grown = module.CreatePartitionsTopic(name=self.name, count=count, assignments=None)
        asked = {"topics": (grown,), "timeout": milliseconds(10_000), "validate_only": False}
        answer = await self.there.ask(named(CREATE_PARTITIONS, 3, **asked))
        assert [one.error_code for one in answer.results] == [NONE]

    async def make_again(self, partitions: int) -> None:
        """Delete it at the other broker, and create it there once more."""
        gone = request_entities(DELETE_TOPICS, 6).DeleteTopicState(name=self.name, topic_id=None)
        timeout = milliseconds(10_000)
        answer = await self.there.ask(named(DELETE_TOPICS, 6, topics=(gone,), timeout=timeout))
        assert [one.error_code for one in answer.responses] == [NONE]
        await self.there.create_topic(self.name, partitions)

    async def commit(self, **offsets: int) -> list[int]:
        """Commit at the coordinator: `commit(p0=5)` is offset 5 of partition 0."""
        wanted = {int(key[1:]): offset for key, offset in offsets.items()}
        return codes(await self.here.ask(commit_request("g", {self.name: wanted})))

    async def fetch(self, client: WireClient, index: int) -> int:
        answer: Any = await client.ask(fetch_request("g", {self.name: [index]}))
        return committed(answer)[self.name][index][0]


@pytest.fixture
async def topic(pair: list[BrokerProcess]) -> AsyncIterator[Topic]:
    async with (
        await WireClient.connect(pair[0].bootstrap) as one,
        await WireClient.connect(pair[1].bootstrap) as two,
    ):
        async with asyncio.timeout(PATIENCE_S):  # until both brokers know of each other
            while await coordinator(one, "g") != await coordinator(two, "g"):
                await asyncio.sleep(0.01)
        is_first = await coordinator(one, "g") == pair[0].port
        made = Topic(here=one, there=two) if is_first else Topic(here=two, there=one)
        await made.there.create_topic(made.name)
        assert await made.commit(p0=1) == [NONE]
        yield made


async def test_partitions_that_were_just_added_have_offsets(topic: Topic) -> None:
    for count in AGAIN:
        # When partitions are added at one broker
        await topic.grow(count)

        # Then the coordinator takes offsets of them, and the other one tells them
        assert await topic.commit(**{f"p{count - 1}": count}) == [NONE]
        assert await topic.fetch(topic.there, count - 1) == count
    assert await topic.commit(p77=1) == [UNKNOWN_TOPIC]


async def test_a_topic_that_was_just_made_again_has_offsets(topic: Topic) -> None:
    for count in AGAIN:
        # When a topic is deleted at one broker, and created again
        await topic.make_again(count)

        # Then the coordinator takes offsets of the new one, of old and of new partitions
        assert await topic.commit(**{"p0": count, f"p{count - 1}": count}) == [NONE, NONE]
        assert await topic.fetch(topic.there, 0) == count
        await topic.make_again(1)
        assert await topic.commit(p0=7, p1=7) == [NONE, UNKNOWN_TOPIC]
        assert await topic.fetch(topic.here, 0) == 7
