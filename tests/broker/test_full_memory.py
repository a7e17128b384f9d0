"""Producers fill the broker's memory while its store takes nothing; that holds up nobody else."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from broker.network.connection import UNREAD_S
from broker.network.memory import REQUEST_BYTES, RESERVE_PART
from broker.network.refused_connections import Refused
from broker.produce_answers import LEAST_TIMEOUT_MS
from protocol.records import Record, build_batch
from tests.broker.quotas.test_quota_muting import World, frame
from tests.support.broker import BrokerProcess, start_broker
from tests.support.request_memory import held_bytes, until_held
from tests.support.wire import WireClient, encode_frame, produce_request

BUDGET_BYTES: Final = 4 * 2**20
BATCH: Final = build_batch([Record(offset_delta=0, value=bytes(32 * 1024))])
EACH: Final = 10
COME_AND_GO: Final = 10
RESERVE_BYTES: Final = BUDGET_BYTES // RESERVE_PART
PATIENCE_S: Final = 60.0
TIMEOUT_MS: Final = 600_000
"""Of producers: they wait until there is room on the disk, however long it takes to fill memory."""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What makes the disk full."""
    return tmp_path_factory.mktemp("disk") / "full"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, full: Path) -> Iterator[BrokerProcess]:
    running = start_broker(
        tmp_path_factory.mktemp("broker"),
        *("--set", f"queued.max.request.bytes={BUDGET_BYTES}"),
        program=("tests.support.full_disk_broker",),
        environment={**os.environ, "FULL_DISK": str(full)},
    )
    yield running
    assert running.stop() == 0


def set_full(full: Path, *, is_full: bool = True) -> None:
    if is_full:
        full.touch()
    else:
        full.unlink()


@asynccontextmanager
async def no_memory(
    broker: BrokerProcess, full: Path, topic: str, request: Any
) -> AsyncIterator[list[WireClient]]:
    """Producers that have all memory; one record is in the topic, and the disk is full."""
    async with AsyncExitStack() as stack:
        stack.callback(full.unlink, missing_ok=True)  # else the broker would not end
        wire = await stack.enter_async_context(await WireClient.connect(broker.bootstrap))
        await wire.create_topic(topic)
        assert (await wire.produce(topic, BATCH)).base_offset == 0
        set_full(full)
        producers: list[WireClient] = []
        while held_bytes(broker) < BUDGET_BYTES:
            producer = await WireClient.connect(broker.bootstrap)
            producers.append(await stack.enter_async_context(producer))
            for number in range(EACH):
                await producer.send(encode_frame(request, number))
        yield producers


async def test_who_appends_nothing_goes_on(broker: BrokerProcess, full: Path) -> None:
    # Given a record, a disk that then is full, and producers that have all memory
    request = produce_request("log", BATCH, timeout_ms=TIMEOUT_MS)
    async with no_memory(broker, full, "log", request) as producers:
        # When others come, send, and go
        for _ in range(COME_AND_GO):
            async with await WireClient.connect(broker.bootstrap) as producer:
                await producer.send(encode_frame(request, 0))

        # Then who appends nothing reads, and makes topics
        async with (
            asyncio.timeout(PATIENCE_S),
            await WireClient.connect(broker.bootstrap) as other,
        ):
            assert (await other.fetch("log", 0)).error_code == ErrorCode.none
            await other.create_topic("made")
            assert await other.topic_id("made") != await other.topic_id("log")

        # When there is room on the disk, then all producers have their answers
        set_full(full, is_full=False)
        async with asyncio.timeout(PATIENCE_S):
            for producer in producers:
                for number in range(EACH):
                    correlation_id, response = await producer.receive(request)
                    (answer,) = response.responses[0].partition_responses
                    assert (correlation_id, answer.error_code) == (number, ErrorCode.none)

    # And nothing is held any more
    await until_held(broker, 0, PATIENCE_S)


async def test_producers_that_come_back_do_not_fill_the_reserve(
    broker: BrokerProcess, full: Path
) -> None:
    # Given a consumer, and producers that have all memory and are told that it takes too long
    request = produce_request("late", BATCH, timeout_ms=LEAST_TIMEOUT_MS)
    async with (
        await WireClient.connect(broker.bootstrap) as consumer,
        no_memory(broker, full, "late", request) as producers,
    ):
        assert (await consumer.fetch("late", 0)).error_code == ErrorCode.none
        _, response = await producers[0].receive(request)
        (answer,) = response.responses[0].partition_responses
        assert answer.error_code == ErrorCode.request_timed_out

        # When others send until the reserve is full, and go
        async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
            while held_bytes(broker) < BUDGET_BYTES + RESERVE_BYTES:
                producer = await WireClient.connect(broker.bootstrap)
                await stack.enter_async_context(producer)
                await producer.send(encode_frame(request, 0))

        # Then what they sent is forgotten, and the consumer goes on
        async with asyncio.timeout(PATIENCE_S):
            while held_bytes(broker) >= BUDGET_BYTES + RESERVE_BYTES:
                await asyncio.sleep(0.05)
            for _ in range(2):
                assert (await consumer.fetch("late", 0)).error_code == ErrorCode.none
        set_full(full, is_full=False)
    await until_held(broker, 0, PATIENCE_S)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A server whose memory ten requests under way take."""
    made = World(limit_bytes=10 * REQUEST_BYTES)
    await made.start()
    yield made
    await made.stop()


async def take_all_memory(world: World) -> None:
    _, writer = await world.client()
    writer.write(frame(b"\0\0 hold") * 10)
    await world.turns()
    assert world.memory.begun_bytes >= world.memory.limit_bytes


async def test_a_produce_that_finds_no_memory_begins_when_there_is_some(world: World) -> None:
    # Given no memory, and a client that has sent nothing yet
    await take_all_memory(world)
    reader, writer = await world.client()

    # When it sends a request, a Produce and another request, then the first is answered only
    writer.write(frame(b"1") + frame(b"\0\0") + frame(b"2"))
    assert await reader.readexactly(1) == b"1"
    await world.turns()
    assert world.echo.begun == [b"\0"] * 10 + [b"1"]

    # When there is memory, then so are the others
    world.echo.release.set()
    assert await reader.readexactly(2) == b"\0002"
    await world.turns()
    assert world.memory.used_bytes == world.memory.begun_bytes == 0


async def test_a_producer_that_goes_when_it_may_begin_leaves_nothing(
    world: World,
) -> None:
    # Given two producers that wait for memory, of whom the first is muted when its turn comes
    await take_all_memory(world)
    for name in (b"1", b"2"):
        reader, writer = await world.client()
        writer.write(frame(name))
        assert await reader.readexactly(1) == name
        writer.write(frame(b"\0\0" + bytes(100)))
        await world.turns()
    muted = world.echo.connections[b"1"]
    muted.mute(3600)
    world.echo.release.set()
    await world.turns()
    assert world.echo.begun == [b"\0"] * 10 + [b"1", b"2", b"\0"]
    assert world.memory.begun_bytes > 0

    # When it goes, then nothing is counted as begun
    muted.refuse("it is time", Refused.IDLE)
    await world.turns()
    assert world.memory.begun_bytes == world.memory.used_bytes == 0


async def test_a_producer_that_gives_up_is_forgotten_with_what_it_sent(world: World) -> None:
    # Given a producer that waits for memory
    await take_all_memory(world)
    used_bytes = world.memory.used_bytes
    loop = asyncio.get_running_loop()
    reader, writer = await world.client()
    before_s = loop.time()
    writer.write(frame(b"1") + frame(b"\0\0" + bytes(100)))
    assert await reader.readexactly(1) == b"1"
    await world.turns()
    connection = world.echo.connections[b"1"]
    now_s = loop.time()
    assert world.memory.used_bytes == used_bytes + 102
    assert connection.expired(now_s + UNREAD_S + 1, max_idle_s=600) is None

    # When it goes, then it is seen although its socket is not read, after a while
    writer.close()
    await world.turns()
    assert connection.expired(before_s + UNREAD_S - 1, max_idle_s=600) is None
    gone = connection.expired(now_s + UNREAD_S + 1, max_idle_s=600)
    assert gone == (Refused.GONE, "has gone, unread")
    connection.refuse(gone[1], gone[0])
    await world.turns()
    assert world.memory.used_bytes == used_bytes
