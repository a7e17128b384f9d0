"""Connections that come too fast (KIP-612): of one address, or of all together."""

import asyncio

import pytest

from broker.quotas.quota_entities import IP
from tests.broker.quotas.quota_world import FakeConnection, World


@pytest.fixture
def world() -> World:
    return World()


async def test_connections_that_come_too_fast_are_closed_by_ip(world: World) -> None:
    # Given one connection a second of one address, hence ten at once
    await world.set({IP: "127.0.0.1"}, connection_creation_rate=1)

    async def connect(ip: str) -> FakeConnection:
        connection = FakeConnection()
        world.rates.admit(connection, ip)
        await asyncio.sleep(0)
        return connection

    # When eleven come, then the last one is to be closed a second later; others are served
    outcomes = [(await connect("127.0.0.1")).dismissed_s for _ in range(11)]
    assert outcomes == [None] * 10 + [1]
    assert (await connect("127.0.0.2")).dismissed_s is None
    assert world.metric("streamhouse_throttled_connections_total", limit="ip") == 1

    # And it did not count: the next one that comes in time is served
    world.now_s += 1
    assert (await connect("::ffff:127.0.0.1")).dismissed_s is None


async def test_connections_over_the_brokers_rate_are_served_later(world: World) -> None:
    world.limit = 2
    connections = [FakeConnection() for _ in range(22)]
    for connection in connections:
        world.rates.admit(connection, "127.0.0.1")
    await asyncio.sleep(0)
    assert [one.muted_s for one in connections] == [0] * 20 + [0.5, 1]


async def test_who_floods_the_broker_with_connections_leaves_no_debt(world: World) -> None:
    # Given five connections a second for the broker, and a thousand that come in no time
    world.limit = 5
    await world.set({IP: "127.0.0.9"}, connection_creation_rate=1000)
    flood = [FakeConnection() for _ in range(1000)]
    for connection in flood:
        world.rates.admit(connection, "127.0.0.9")
    await asyncio.sleep(0)

    # Then the first ones are served, at once or within a second, and the others are closed
    served = [one for one in flood if one.dismissed_s is None]
    assert len(served) == 55
    assert max(one.muted_s for one in served) == 1
    assert {one.dismissed_s for one in flood[len(served) :]} == {1}
    assert world.metric("streamhouse_throttled_connections_total", limit="broker") == 950

    # And what was closed did not count: who comes a second later is served within the next one
    world.now_s += 1
    other = FakeConnection()
    world.rates.admit(other, "127.0.0.2")
    await asyncio.sleep(0)
    assert (other.dismissed_s, other.muted_s) == (None, 0.2)

    # And who comes when the limit has been lowered does not wait for what was owed at the old one
    world.limit = 1
    another = FakeConnection()
    world.rates.admit(another, "127.0.0.2")
    await asyncio.sleep(0)
    assert (another.dismissed_s, another.muted_s) == (None, 0)
