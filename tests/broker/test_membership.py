"""What a broker believes of the others, and when it is cut off from them.

What follows is in test_cut_off.py and groups/test_cut_off.py. Time is virtual: a machine that comes
to nothing for a moment is not taken for a Postgres that is silent.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from uuid import UUID

import pytest

from broker import membership
from broker.membership import Members
from storage.errors import MetadataUnavailable
from storage.metadata.brokers import Membership
from tests.support import virtual_time
from tests.support.fakes.metadata import MemoryMetadata


class Store(MemoryMetadata):
    """Attributes:
    is_away: no heartbeat is answered. asked: how many heartbeats there were.
    """

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.is_away = False
        self.asked = 0

    async def broker_heartbeat(self, *args: Any, **values: Any) -> Membership:
        self.asked += 1
        if self.is_away:
            raise MetadataUnavailable("away")
        return await super().broker_heartbeat(*args, **values)

    async def beats(self, count: int) -> None:
        """Wait for so many heartbeats."""
        last = self.asked + count
        async with asyncio.timeout(10):
            while self.asked < last:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def beating(store: Store) -> AsyncIterator[Members]:
    """Yield the members as the first broker sees them."""
    first = Members(store, UUID(int=1))
    await first.join(["PLAINTEXT://one:9092"], rack=None, preferred_node_id=0, alone=False)
    beats = asyncio.create_task(first.beat())
    try:
        yield first
    finally:
        beats.cancel()


def test_one_of_several_is_cut_off_until_it_is_answered() -> None:
    async def scenario() -> None:
        store = Store()
        async with beating(store) as members:
            # Given two brokers, and a listener of one of them
            other = Members(store, UUID(int=2))
            await other.join(["PLAINTEXT://two:9092"], rack=None, preferred_node_id=1, alone=False)
            await store.beats(2)
            told: list[tuple[bool, int]] = []
            members.on_change(lambda brokers: told.append((brokers.is_cut_off, brokers.generation)))
            generation = members.current.generation

            # When it is not answered for a moment, and then for longer
            store.is_away = True
            await store.beats(2)
            assert told == [(False, generation)]
            async with asyncio.timeout(10):
                while not members.current.is_cut_off:
                    await store.beats(1)

            # Then it is told once, in the same generation, and once more when there is an answer
            await store.beats(10)
            assert told[1:] == [(True, generation)]
            store.is_away = False
            await store.beats(2)
            assert told[2:] == [(False, generation)]

    virtual_time.run(scenario())


def test_a_generation_that_is_another_set_than_was_seen_is_not_believed() -> None:
    async def scenario() -> None:
        store = Store()
        async with beating(store) as members:
            # Given two brokers, the second of which a failover has lost
            lost = Members(store, UUID(int=2))
            await lost.join(["PLAINTEXT://two:9092"], rack=None, preferred_node_id=1, alone=False)
            await store.beats(2)
            seen = members.current.membership
            assert (seen.generation, len(seen.brokers)) == (1, 2)
            del store._brokers[1]
            store._generation = 0

            # When another one takes the generation in which the second came
            other = Members(store, UUID(int=3))
            await other.join(
                ["PLAINTEXT://three:9092"], rack=None, preferred_node_id=2, alone=False
            )
            assert other.current.generation == seen.generation
            await store.beats(3)

            # Then both go on in one that nobody has seen, and that lasts
            assert [one.node_id for one in members.current.membership.brokers] == [0, 2]
            generation = members.current.generation
            assert generation > seen.generation
            await other._ask(other._send_heartbeat)
            await store.beats(3)
            assert other.current.generation == members.current.generation == generation

    virtual_time.run(scenario())


def test_a_lone_broker_is_never_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        store = Store()
        async with beating(store) as members:
            monkeypatch.setattr(membership, "CUT_OFF_S", 0.0)
            store.is_away = True
            await store.beats(10)
            assert not members.current.is_cut_off

    virtual_time.run(scenario())
