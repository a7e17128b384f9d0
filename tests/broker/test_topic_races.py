"""What brokers know of topics that all of them change at a time, with answers that come late."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from random import Random
from typing import TypeVar

import pytest

from broker.topics import Topics
from storage.errors import ConfigsChanged, TopicAlreadyExists, UnknownPartition
from storage.metadata.topics import Topic, TopicChanges
from tests.broker.topic_stores import Store, created, topics_of

T = TypeVar("T")


class LateStore(Store):
    """What it answers of changes is some turns of the event loop old when it arrives."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._turns = random

    async def topic_changes(self, since_version: int) -> TopicChanges:
        return await self.late(super().topic_changes(since_version))

    async def late(self, answer: Awaitable[T]) -> T:
        await self._pass(2)
        made = await answer
        await self._pass(self._turns.choice((3, 6, 30)))
        return made

    async def _pass(self, most: int) -> None:
        for _ in range(self._turns.randrange(most)):
            await asyncio.sleep(0)


async def change_topics(topics: Topics, store: LateStore, random: Random) -> None:
    """Be a client of one broker that makes, alters and deletes topics of two names."""
    for number in range(20):
        await asyncio.sleep(0)
        name = random.choice(("one", "other"))
        known = topics.get(name)
        with suppress(TopicAlreadyExists, UnknownPartition, ConfigsChanged):
            match random.choice(("make", "alter", "delete", "look")):
                case "make":
                    await topics.change(store.late(created(store, name)))
                case "alter" if known:
                    await topics.change(alter(store, known.topic, number), of=known.topic)
                case "delete" if known:
                    await store.late(store.delete_topic(known.topic.topic_id))
                    topics.deleted(known.topic.topic_id)
                case _:
                    await topics.refresh()


async def alter(store: LateStore, topic: Topic, number: int) -> Topic:
    changes = {"retention.ms": str(number)}
    altering = store.alter_topic_configs(topic.topic_id, changes, replace=False, expected=None)
    return await store.late(altering)


@pytest.mark.parametrize("seed", range(50))
async def test_after_a_refresh_each_broker_knows_what_there_is(seed: int) -> None:
    # Given two brokers, with two clients each that change the same topics
    random = Random(seed)
    store = LateStore(random)
    brokers = [topics_of(store) for _ in range(2)]
    clients = (change_topics(broker, store, random) for broker in brokers for _ in range(2))

    # When the clients are done, and the brokers look once more
    await asyncio.gather(*clients)
    await asyncio.gather(*(broker.refresh() for broker in brokers))

    # Then both know what there is, by name and by id
    for broker in brokers:
        assert {known.topic.topic_id: known.topic for known in broker.all()} == store._topics
        assert {known.topic.topic_id for known in broker._by_id.values()} == store._topics.keys()
