"""Muted connections: a real server, with a dispatcher that answers when it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from random import Random

import pytest
from prometheus_client import CollectorRegistry

from broker.broker_metrics import BrokerMetrics
from broker.configs.entity_configs import EntityConfigs
from broker.network.answer_when import Answer, Reply
from broker.network.connection import Connection
from broker.network.listeners import parse_listener
from broker.network.memory import MemoryBudget
from broker.network.reception import ServerLimits
from broker.network.refused_connections import RefusalLog, Refused
from broker.network.server import Server
from broker.quotas.quota_connections import UNLIMITED, ConnectionRates
from broker.quotas.quota_metrics import QuotaMetrics
from broker.quotas.quota_table import QuotaTable
from tests.support.fakes.metadata import MemoryMetadata

HOUR_S = 3600.0
TURNS = 50
KIB = 1024
LARGE_BYTES = 4096 * KIB


def frame(text: bytes, size: int = 0) -> bytes:
    data = text.ljust(size, b".")
    return len(data).to_bytes(4) + data


class Echo:
    """Answers with the first byte of a request, after what else the request says.

    `mute` and `limit` are for its connection; `hold` and `wait` until `release`, and those behind
    it begin meanwhile with `hold` only. The answer to `large` has LARGE_BYTES.

    Attributes:
        begun: the first byte of each request, in the order they began.
        ended: that of those which had to wait, and did so to the end.
    """

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.ended: list[bytes] = []
        self.connections: dict[bytes, Connection] = {}
        self.release = asyncio.Event()

    async def dispatch(
        self, frame: bytearray, connection: Connection, give_back: Callable[[], None]
    ) -> Reply:
        name = bytes(frame[:1])
        self.begun.append(name)
        self.connections[name] = connection
        if b"mute" in frame[:16] or b"limit" in frame[:16]:
            connection.read_one_ahead()
        if b"mute" in frame[:16]:
            connection.mute(HOUR_S)
        if b"wait" in frame[:16]:
            await self.release.wait()
            self.ended.append(name)
        if b"hold" in frame[:16]:
            return self._later(name)
        return name * LARGE_BYTES if b"large" in frame[:16] else name

    async def _later(self, name: bytes) -> Answer:
        await self.release.wait()
        return name


class World:
    """A server and its clients."""

    def __init__(self, limit_bytes: int = -1) -> None:
        self.memory = MemoryBudget(limit_bytes)
        self.echo = Echo()
        registry = CollectorRegistry()
        self.rates = ConnectionRates(
            QuotaTable(EntityConfigs(MemoryMetadata(Random(1)))),
            limit=lambda: UNLIMITED,
            burst_s=10,
            longest_s=1,
            metrics=QuotaMetrics(registry),
            clock=lambda: 0.0,
        )
        limits = ServerLimits(
            max_frame_bytes=2**30,
            max_early_bytes=2**16,
            max_connections=10,
            max_connections_per_ip=10,
            max_idle_s=600,
            backlog=10,
        )
        self.server = Server(
            memory=self.memory,
            metrics=BrokerMetrics(registry),
            limits=limits,
            rates=self.rates,
            refusals=RefusalLog(lambda: 0.0),
        )
        self._port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self, listener: str = "127.0.0.1:0") -> None:
        self._port = await self.server.bind(parse_listener(listener))
        await self.server.serve([self.echo])

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        return reader, writer

    async def stop(self) -> None:
        self.echo.release.set()
        self.server.stop_accepting()
        await self.server.close(1)
        for writer in self._writers:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await self.turns()

    async def turns(self) -> None:
        """Let all that can happen without waiting happen."""
        for _ in range(TURNS):
            await asyncio.sleep(0.001)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.start()
    yield made
    await made.stop()


async def test_a_muted_connection_begins_nothing_and_sends_what_is_due(world: World) -> None:
    # Given a connection with an answer under way, which is muted by its second request
    reader, writer = await world.client()
    writer.write(frame(b"1 hold") + frame(b"2 mute") + frame(b"3"))
    await world.turns()
    assert world.echo.begun == [b"1", b"2"]

    # When the first answer is there, then both go out, and nothing more begins
    world.echo.release.set()
    assert await reader.readexactly(2) == b"12"
    await world.turns()
    assert world.echo.begun == [b"1", b"2"]
    assert 0 < world.echo.connections[b"2"].muted_ms() <= HOUR_S * 1000

    # But others go on
    other, others = await world.client()
    others.write(frame(b"4"))
    assert await other.readexactly(1) == b"4"

    # When quotas change, then it goes on, too
    world.server.unmute()
    assert await reader.readexactly(1) == b"3"
    assert world.echo.connections[b"3"].muted_ms() == 0


async def test_a_change_of_quotas_stops_no_connection_that_is_not_muted(world: World) -> None:
    # Given a client with a quota, none of whose requests is read while one waits to be answered
    reader, writer = await world.client()
    writer.write(frame(b"1 limit"))
    assert await reader.readexactly(1) == b"1"
    writer.write(frame(b"2 wait"))
    await world.turns()
    assert world.echo.begun == [b"1", b"2"]

    # When quotas change meanwhile, then it is served as before
    world.server.unmute()
    world.echo.release.set()
    assert await reader.readexactly(1) == b"2"
    writer.write(frame(b"3"))
    async with asyncio.timeout(5):
        assert await reader.readexactly(1) == b"3"


async def test_a_connection_goes_on_by_itself_when_its_time_is_over(world: World) -> None:
    reader, writer = await world.client()
    writer.write(frame(b"1"))
    assert await reader.readexactly(1) == b"1"
    began_s = asyncio.get_running_loop().time()
    world.echo.connections[b"1"].mute(0.05)
    world.echo.connections[b"1"].mute(0.01)
    writer.write(frame(b"2"))
    assert await reader.readexactly(1) == b"2"
    assert asyncio.get_running_loop().time() - began_s >= 0.045


async def test_what_a_muted_client_has_sent_does_not_fill_the_memory(world: World) -> None:
    # Given a muted client that has sent megabytes
    _, writer = await world.client()
    writer.write(frame(b"1 mute"))
    for _ in range(20):
        writer.write(frame(b"2 hold", 512 * KIB))
    await world.turns()

    # Then no more than one turn's worth of them was read
    assert world.echo.begun == [b"1"]
    assert world.memory.used_bytes <= 512 * KIB

    # And large frames that come after a pause stay in the socket altogether
    reader, second = await world.client()
    second.write(frame(b"3", 512 * KIB))
    assert await reader.readexactly(1) == b"3"
    world.echo.connections[b"3"].read_one_ahead()
    before = world.memory.used_bytes
    second.write(frame(b"4 mute", 512 * KIB) + frame(b"5", 512 * KIB))
    assert await reader.readexactly(1) == b"4"
    await world.turns()
    assert world.memory.used_bytes == before
    world.server.unmute()
    assert await reader.readexactly(1) == b"5"


async def test_being_muted_is_neither_idling_nor_stalling(world: World) -> None:
    # Given a muted connection with an unfinished frame
    reader, writer = await world.client()
    writer.write(frame(b"1 mute") + frame(b"2 the rest is missing")[:10])
    assert await reader.readexactly(1) == b"1"
    connection = world.echo.connections[b"1"]
    now_s = asyncio.get_running_loop().time()

    # Then it is not closed for the bytes that nobody reads, until it has been idle for too long
    assert connection.expired(now_s + 599, max_idle_s=600) is None
    assert connection.expired(now_s + 602, max_idle_s=600) == (Refused.IDLE, "muted for 600 s")

    # And afterwards the rest is waited for as ever
    connection.unmute()
    assert connection.expired(now_s + 29, max_idle_s=600) is None
    stalled = connection.expired(now_s + 60, max_idle_s=600)
    assert stalled is not None
    assert stalled[0] is Refused.STALLED


async def test_a_muted_connection_ends_with_the_server(world: World) -> None:
    reader, writer = await world.client()
    writer.write(frame(b"1 mute hold"))
    await world.turns()
    closing = asyncio.ensure_future(world.server.close(5))
    world.echo.release.set()
    await closing
    assert await reader.read() == b"1"


async def test_who_is_muted_after_the_end_leaves_no_timer(world: World) -> None:
    # Given a client that has gone while its request is under way
    _, writer = await world.client()
    writer.write(frame(b"1 hold"))
    await world.turns()
    writer.transport.abort()
    await world.turns()

    # Then its answer mutes nobody
    connection = world.echo.connections[b"1"]
    connection.mute(HOUR_S)
    assert connection.muted_ms() == 0


async def test_a_dismissed_connection_is_closed_without_an_answer(world: World) -> None:
    reader, writer = await world.client()
    writer.write(frame(b"1"))
    assert await reader.readexactly(1) == b"1"
    connection = world.echo.connections[b"1"]
    connection.dismiss(0.05)
    connection.unmute()
    writer.write(frame(b"2"))
    with suppress(ConnectionResetError):  # what it sent was not read
        assert await reader.read() == b""
    assert world.echo.begun == [b"1"]
