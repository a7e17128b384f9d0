"""Connections that end by halves, or wait before they begin: what they may cost the broker."""

import asyncio
import gc
import socket
import ssl
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, cast

import pytest
from prometheus_client import CollectorRegistry

from broker.broker_metrics import BrokerMetrics
from broker.configs.entity_configs import EntityConfigs
from broker.network.answer_when import Reply
from broker.network.connection import Connection
from broker.network.deadlines import CLOSE_S, LOGIN_S
from broker.network.listeners import parse_listener
from broker.network.memory import MemoryBudget
from broker.network.reception import ServerLimits
from broker.network.refused_connections import RefusalLog, Refused
from broker.network.server import CLOSED_AT_ONCE, SWEPT_AT_ONCE, Server
from broker.network.tls_stream import TlsStream
from broker.quotas.quota_connections import ConnectionRates
from broker.quotas.quota_metrics import QuotaMetrics
from broker.quotas.quota_table import QuotaTable
from tests.support.certificates import make_authority
from tests.support.fakes.metadata import MemoryMetadata

ANSWER_BYTES: Final = 4 * 2**20
REQUEST: Final = (1).to_bytes(4) + b"?"
RATE: Final = 1
BURST_S: Final = 1
PATIENCE_S: Final = 10.0


class Reception:
    """A server that answers every request with more than the socket of a deaf peer takes.

    Attributes:
        connections: that of each request.
        rate: max.connection.creation.rate.
    """

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.rate = 2**31 - 1
        registry = CollectorRegistry()
        rates = ConnectionRates(
            QuotaTable(EntityConfigs(MemoryMetadata(Random(1)))),
            limit=lambda: self.rate,
            burst_s=BURST_S,
            longest_s=PATIENCE_S,
            metrics=QuotaMetrics(registry),
            clock=lambda: 0.0,
        )
        limits = ServerLimits(
            max_frame_bytes=2**20,
            max_early_bytes=2**16,
            max_connections=1000,
            max_connections_per_ip=1000,
            max_idle_s=600,
            backlog=10,
        )
        self.server = Server(
            memory=MemoryBudget(-1),
            metrics=BrokerMetrics(registry),
            limits=limits,
            rates=rates,
            refusals=RefusalLog(lambda: 0.0),
        )

    async def dispatch(
        self, frame: bytearray, connection: Connection, give_back: Callable[[], None]
    ) -> Reply:
        self.connections.append(connection)
        return bytes(ANSWER_BYTES)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.01)


@pytest.fixture
async def reception() -> AsyncIterator[Reception]:
    made = Reception()
    yield made
    made.server.stop_accepting()
    await made.server.close(1)


async def test_who_sends_nothing_more_has_seconds_to_read_the_rest(reception: Reception) -> None:
    # Given a client that reads nothing, and not for long enough to be a slow reader
    port = await reception.server.bind(parse_listener("127.0.0.1:0"))
    await reception.server.serve([reception])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(REQUEST * 2)  # the second waits for the first one's answer to be read
        await reception.until(lambda: len(reception.connections) == 1)
        connection = reception.connections[0]
        now_s = asyncio.get_running_loop().time()
        assert connection.expired(now_s + CLOSE_S + 1, max_idle_s=600) is None

        # When it says that it will send nothing more
        client.shutdown(socket.SHUT_WR)

        # Then it is closed soon, however long it stays
        await reception.until(
            lambda: connection.expired(now_s + CLOSE_S + PATIENCE_S, max_idle_s=600) is not None
        )
        late = connection.expired(now_s + CLOSE_S + PATIENCE_S, max_idle_s=600)
        assert late == (Refused.SLOW_READER, f"did not read its last answers for {CLOSE_S} s")
        connection.refuse(late[1], late[0])
        await reception.until(lambda: connection.session.ended)


async def test_the_time_to_log_in_begins_when_a_connection_is_served(
    reception: Reception, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given connections that come much faster than max.connection.creation.rate
    admitted: list[Connection] = []
    admit = reception.server.admit

    def remember(connection: Connection, ip: str) -> Refused | None:
        admitted.append(connection)
        return admit(connection, ip)

    monkeypatch.setattr(reception.server, "admit", remember)
    port = await reception.server.bind(parse_listener("SASL_PLAINTEXT://127.0.0.1:0"))
    await reception.server.serve([reception])
    reception.rate = RATE
    clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
    await reception.until(lambda: len(admitted) == len(clients))
    await reception.until(lambda: admitted[-1].muted_ms() > 0)
    now_s = asyncio.get_running_loop().time()
    wait_s = admitted[-1].muted_ms() / 1000
    assert wait_s > 2

    # Then the last one is not late while it is not served, and is when it has had its time
    first, last = admitted[0], admitted[-1]
    assert first.expired(now_s + LOGIN_S + 1, max_idle_s=600) is not None
    assert last.expired(now_s + LOGIN_S + 1, max_idle_s=600) is None
    late = last.expired(now_s + wait_s + LOGIN_S + 1, max_idle_s=600)
    assert late is not None
    assert late[0] is Refused.UNAUTHENTICATED
    for _, writer in clients:
        writer.close()


@pytest.mark.parametrize("listener", ["127.0.0.1:0", "SASL_PLAINTEXT://127.0.0.1:0"])
@pytest.mark.parametrize("sent", [b"", REQUEST, REQUEST * 2])
async def test_a_connection_that_has_ended_leaves_nothing_to_the_garbage_collector(
    reception: Reception, listener: str, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a client that has asked for nothing, for an answer, or for more than it takes
    admitted: list[weakref.ref[Connection]] = []
    admit = reception.server.admit

    def remember(connection: Connection, ip: str) -> Refused | None:
        admitted.append(weakref.ref(connection))
        return admit(connection, ip)

    monkeypatch.setattr(reception.server, "admit", remember)
    port = await reception.server.bind(parse_listener(listener))
    await reception.server.serve([reception])
    gc.collect()
    gc.disable()  # a pass over what a thousand connections left would stop the event loop for long
    try:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(sent)
            await reception.until(lambda: len(admitted) == 1)
            await reception.until(lambda: len(reception.connections) == bool(sent))
            reception.connections.clear()

        # When it goes, then nothing of it is left, once all that it sent has begun
        await reception.until(
            lambda: admitted[0]() is None or bool(reception.connections and sent == REQUEST * 2)
        )
        reception.connections.clear()
        await reception.until(lambda: admitted[0]() is None)
    finally:
        gc.enable()


async def test_an_answer_that_was_sent_keeps_no_memory_until_the_client_asks_again(
    reception: Reception, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an answer that is a part of something larger
    whole = bytearray(1_000)

    async def dispatch(
        frame: bytearray, connection: Connection, give_back: Callable[[], None]
    ) -> Reply:
        return [memoryview(whole)[:100]]

    monkeypatch.setattr(reception, "dispatch", dispatch)
    port = await reception.server.bind(parse_listener("127.0.0.1:0"))
    await reception.server.serve([reception])

    # When its client has read it, and stays
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(PATIENCE_S):
        writer.write(REQUEST)
        assert await reader.readexactly(100) == bytes(100)

    # Then nothing has a view of it any more
    whole.append(0)
    writer.close()


async def test_nothing_is_left_of_a_request_that_ended_after_its_client_went(
    reception: Reception, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a request whose handler waits for something
    served: list[weakref.ref[Connection]] = []
    ended: list[bool] = []
    something = asyncio.Event()

    async def dispatch(
        frame: bytearray, connection: Connection, give_back: Callable[[], None]
    ) -> Reply:
        served.append(weakref.ref(connection))
        await something.wait()
        ended.append(connection.session.ended)
        return bytes(ANSWER_BYTES)

    monkeypatch.setattr(reception, "dispatch", dispatch)
    port = await reception.server.bind(parse_listener("127.0.0.1:0"))
    await reception.server.serve([reception])
    gc.collect()
    gc.disable()
    try:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(REQUEST)
            await reception.until(lambda: len(served) == 1)

        # When the client goes before there is that, then nothing waits for its next request
        await reception.until(lambda: (one := served[0]()) is not None and one.session.ended)
        something.set()
        await reception.until(lambda: served[0]() is None)
        assert ended == [True]
    finally:
        gc.enable()


class Silent:
    """A connection that may have been idle for too long, and notes in which turn that is seen."""

    def __init__(self, turns: list[int], *, too_long: bool) -> None:
        self._turns = turns
        self._too_long = too_long
        self.seen_in: int | None = None
        self.refused_in: int | None = None

    def expired(self, now_s: float, *, max_idle_s: float) -> tuple[Refused, str] | None:
        self.seen_in = self.seen_in or self._turns[0]
        return (Refused.IDLE, "idle") if self._too_long else None

    def refuse(self, reason: str, kind: Refused) -> None:
        self.refused_in = self.refused_in or self._turns[0]

    async def finish(self) -> None:
        return


@pytest.mark.parametrize(
    ("too_long", "at_once"), [(True, CLOSED_AT_ONCE), (False, SWEPT_AT_ONCE)], ids=["close", "look"]
)
async def test_many_connections_do_not_have_one_turn_of_the_event_loop(
    reception: Reception, monkeypatch: pytest.MonkeyPatch, too_long: bool, at_once: int
) -> None:
    # Given more idle connections than a turn has time for
    turns = [0]
    silent = [Silent(turns, too_long=too_long) for _ in range(at_once * 5)]
    for one in silent:
        reception.server.admit(cast("Connection", one), "127.0.0.1")

    async def count_turns() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    # When they are looked at
    monkeypatch.setattr("broker.network.server.SWEEP_S", 0.0)
    counting, sweeping = map(asyncio.create_task, (count_turns(), reception.server.sweep()))
    await reception.until(lambda: all(one.seen_in for one in silent))
    counting.cancel()
    sweeping.cancel()

    # Then others had their turns between
    assert max(Counter(one.seen_in for one in silent).values()) <= at_once
    assert [one.refused_in for one in silent] == [
        one.seen_in if too_long else None for one in silent
    ]


def test_nothing_is_kept_of_what_comes_behind_a_goodbye(tmp_path: Path) -> None:
    # Given a client of TLS that has said goodbye
    authority = make_authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue().write_keystore(tmp_path / "keystore.pem"))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cadata=authority.certificate_pem().decode())
    client = trusting.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    stream = TlsStream(context)
    for step in (client.do_handshake, client.do_handshake, client.unwrap):
        with suppress(ssl.SSLWantReadError):
            step()
        if data := outgoing.read():
            stream.feed(memoryview(data))
        stream.shake_hands()
        incoming.write(stream.take_outgoing())
    room = memoryview(bytearray(100))
    assert stream.read_into(room) == 0
    assert stream.ended

    # When it goes on sending, then that is not kept
    stream.feed(memoryview(bytes(2**20)))
    assert stream._incoming.pending == 0
