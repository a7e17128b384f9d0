"""What becomes of requests whose connection ends: they go on, and those behind them are begun."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.network.frame_intake import MAX_QUEUED_FRAMES
from broker.network.memory import HeldMemory
from broker.network.refused_connections import Refused
from protocol.records import Record, build_batch
from tests.broker.quotas.test_quota_muting import World, frame
from tests.support.broker import BrokerProcess, running_broker
from tests.support.request_memory import until_held
from tests.support.wire import (
    WireClient,
    encode_frame,
    fetch_request,
    list_offset_request,
    produce_request,
)

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: nothing is said but that the connection is gone."""


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.start()
    yield made
    await made.stop()


async def go(world: World, writer: asyncio.StreamWriter, *, reset: bool = False) -> None:
    if reset:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.close()
    await world.turns()


@pytest.mark.parametrize("reset", [False, True])
async def test_what_came_before_the_end_is_begun_after_it(world: World, *, reset: bool) -> None:
    # Given a client whose first request takes its time, and others behind it
    _, writer = await world.client()
    writer.write(frame(b"1 wait") + frame(b"2") + frame(b"3 hold") + frame(b"4", size=100)[:50])
    await world.turns()
    assert world.echo.begun == [b"1"]
    connection = world.echo.connections[b"1"]

    # When it goes, then the first goes on, and the others follow
    await go(world, writer, reset=reset)
    assert connection.session.ended
    world.echo.release.set()
    await world.turns()
    assert world.echo.begun == [b"1", b"2", b"3"]

    # And nothing is left of it
    assert world.memory.used_bytes == world.memory.begun_bytes == 0
    assert world.memory.backlog.bytes == 0


@pytest.mark.parametrize("reset", [False, True])
async def test_no_fetch_goes_on_or_is_begun_when_its_client_has_gone(
    world: World, *, reset: bool
) -> None:
    # Given a client that fetches, with others of its requests behind that
    fetch = b"\0\1 wait"
    _, writer = await world.client()
    writer.write(frame(fetch) + frame(fetch) + frame(b"2"))
    await world.turns()
    assert world.echo.begun == [b"\0"]

    # When it goes, then its place is free at once, and nothing is left of it
    await go(world, writer, reset=reset)
    assert world.memory.used_bytes == world.memory.begun_bytes == 0
    world.echo.release.set()
    await world.turns()
    assert not world.echo.ended
    assert world.echo.begun == [b"\0"]


async def test_a_fetch_does_not_wait_for_records_when_its_client_has_gone(tmp_path: Path) -> None:
    # Given a client that waits ten minutes for records, with another request behind that
    with running_broker(tmp_path) as broker:
        async with await WireClient.connect(broker.bootstrap) as other:
            await other.create_topic("quiet")
        host, port = broker.bootstrap.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        behind = encode_frame(list_offset_request("quiet", -1), 2)
        writer.write(encode_frame(fetch_request([("quiet", 0, 0)], max_wait_ms=600_000), 1))
        writer.write(behind)
        await until_held(broker, len(behind) - 4)  # without its size

        # When it goes, then nothing is left of it
        writer.close()
        await until_held(broker, 0)


async def test_fetches_behind_what_goes_on_are_forgotten(world: World) -> None:
    _, writer = await world.client()
    writer.write(frame(b"1 wait") + frame(b"\0\1") + frame(b"2"))
    await world.turns()
    await go(world, writer)
    world.echo.release.set()
    await world.turns()
    assert world.echo.begun == [b"1", b"2"]
    assert world.memory.used_bytes == world.memory.begun_bytes == 0


async def test_a_login_does_not_go_on_when_its_client_has_gone() -> None:
    # Given a client that waits to be logged in
    world = World()
    await world.start("SASL_PLAINTEXT://127.0.0.1:0")
    _, writer = await world.client()
    writer.write(frame(b"1 wait") + frame(b"2"))
    await world.turns()
    assert world.echo.begun == [b"1"]

    # When it goes, then it waits no more, and nothing is left of it
    await go(world, writer)
    assert world.memory.used_bytes == 0
    world.echo.release.set()
    await world.turns()
    assert not world.echo.ended
    assert world.echo.begun == [b"1"]
    await world.stop()


async def test_a_request_under_way_ends_although_its_connection_is_refused(world: World) -> None:
    # Given a request under way, and another behind it
    _, writer = await world.client()
    writer.write(frame(b"1 wait, then hold") + frame(b"2"))
    await world.turns()
    connection = world.echo.connections[b"1"]

    # When the connection is refused, then what has begun goes on, and nothing else is begun
    connection.refuse("it is time", Refused.IDLE)
    await world.turns()
    assert world.memory.used_bytes == world.memory.begun_bytes > 0
    world.echo.release.set()
    await world.turns()
    assert world.echo.begun == world.echo.ended == [b"1"]
    assert world.memory.used_bytes == 0


async def test_a_server_that_stops_waits_for_what_is_under_way(world: World) -> None:
    # Given a request under way, another behind it, and one whose client has gone
    reader, writer = await world.client()
    writer.write(frame(b"1 wait") + frame(b"2"))
    _, gone = await world.client()
    gone.write(frame(b"3 wait"))
    await world.turns()
    await go(world, gone)

    # When the server stops, then it waits for both
    stopping = asyncio.create_task(world.server.close(10))
    await world.turns()
    assert not stopping.done()
    world.echo.release.set()
    await stopping
    assert await reader.read() == b"1"
    assert sorted(world.echo.ended) == [b"1", b"3"]


async def test_who_goes_counts_until_nothing_of_it_is_under_way(world: World) -> None:
    # Given as many connections as there may be, each with a request under way
    for _ in range(world.server.limits.max_connections):
        _, writer = await world.client()
        writer.write(frame(b"1 wait"))
        await world.turns()
        await go(world, writer)

    # When another comes, then it is one too many
    reader, writer = await world.client()
    writer.write(frame(b"2"))
    assert await reader.read(1) == b""

    # And when those are done, then it is not
    world.echo.release.set()
    await world.turns()
    reader, writer = await world.client()
    writer.write(frame(b"2"))
    assert await reader.readexactly(1) == b"2"


async def test_what_waits_for_memory_is_forgotten_with_its_client(world: World) -> None:
    # Given a producer behind a request that takes its time
    _, writer = await world.client()
    writer.write(frame(b"1 wait") + frame(b"\0\0") + frame(b"2"))
    await world.turns()
    memory = world.memory

    # When there is no memory, and the client goes, then its Produce is not begun
    memory.limit_bytes = memory.begun_bytes
    memory.take(memory.limit_bytes)
    held = HeldMemory(memory, memory.limit_bytes)
    await go(world, writer)
    world.echo.release.set()
    await world.turns()
    assert world.echo.begun == [b"1"]
    held.give_back()
    await world.turns()
    assert world.echo.begun == [b"1"]
    assert memory.used_bytes == 0


@pytest.mark.parametrize("count", [1, MAX_QUEUED_FRAMES])
async def test_nothing_is_lost_of_a_producer_that_waits_for_no_answer(
    broker: BrokerProcess, count: int
) -> None:
    async with await WireClient.connect(broker.bootstrap) as wire:
        # Given a compacted topic: that records have keys is looked at in a thread
        topic = f"compacted-{count}"
        await wire.create_topic(topic, cleanup_policy="compact")
        batches = [build_batch([Record(offset_delta=0, key=b"k")]) for _ in range(count)]
        requests = [
            encode_frame(produce_request(topic, batch, acks=0), number)
            for number, batch in enumerate(batches)
        ]

        # When a producer sends records with acks=0, and closes at once
        host, port = broker.bootstrap.split(":")
        with socket.create_connection((host, int(port))) as producer:
            producer.sendall(b"".join(requests))

        # Then they are all there
        async with asyncio.timeout(20):
            while (await wire.list_offset(topic, -1)).offset < count:
                await asyncio.sleep(0.05)
