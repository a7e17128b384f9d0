"""Answers that wait for those before them, on a real server (see tests/broker/quotas)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from broker.network.refused_connections import Refused
from tests.broker.quotas.test_quota_muting import LARGE_BYTES, World, frame

REQUESTS = 100


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.start()
    yield made
    await made.stop()


async def test_what_waits_behind_a_parked_request_is_bounded(world: World) -> None:
    # Given a client with a request that takes long (JoinGroup)
    reader, writer = await world.client()
    writer.write(frame(b"1 hold"))

    # When it asks for many large answers behind that
    writer.write(frame(b"2 large") * REQUESTS)
    await world.turns()

    # Then one is made, and counted; the others do not begin
    assert world.echo.begun == [b"1", b"2"]
    assert world.memory.backlog.bytes == LARGE_BYTES

    # And small ones of others begin
    other, others = await world.client()
    others.write(frame(b"3"))
    assert await other.readexactly(1) == b"3"

    # When the first answer is there, then all go out
    world.echo.release.set()
    assert await reader.readexactly(1) == b"1"
    for _ in range(REQUESTS):
        assert await reader.readexactly(LARGE_BYTES) == b"2" * LARGE_BYTES
    assert world.memory.backlog.bytes == 0


async def test_small_answers_do_not_keep_others_from_beginning(world: World) -> None:
    reader, writer = await world.client()
    writer.write(frame(b"1 hold") + frame(b"2") * REQUESTS)
    await world.turns()
    assert world.echo.begun == [b"1"] + [b"2"] * REQUESTS
    world.echo.release.set()
    assert await reader.readexactly(1 + REQUESTS) == b"1" + b"2" * REQUESTS


async def test_what_waits_for_who_is_gone_is_counted_no_longer(world: World) -> None:
    _, writer = await world.client()
    writer.write(frame(b"1 hold") + frame(b"2 large"))
    await world.turns()
    assert world.memory.backlog.bytes == LARGE_BYTES
    writer.transport.abort()
    await world.turns()
    assert world.memory.backlog.bytes == 0


async def test_a_client_is_not_idle_while_it_waits_for_an_answer(world: World) -> None:
    # Given a client that waits for its answer for longer than it may be idle
    reader, writer = await world.client()
    writer.write(frame(b"1 hold"))
    await world.turns()
    connection = world.echo.connections[b"1"]
    now_s = asyncio.get_running_loop().time()
    assert connection.expired(now_s + 700, max_idle_s=600) is None

    # When it has it, then it is idle as long after that as it may be, and not at once
    world.echo.release.set()
    assert await reader.readexactly(1) == b"1"
    assert connection.expired(now_s + 1_299, max_idle_s=600) is None
    assert connection.expired(now_s + 1_301, max_idle_s=600) == (Refused.IDLE, "idle for 600 s")
