"""What a client may do before it has shown who it is: little, and not for long."""

import asyncio
import ssl
import struct
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from protocol.framing import FIRST_BYTES, FrameBuffer
from protocol.records import Record, build_batch
from tests.support.tls import TlsBroker, metric, running_tls_broker
from tests.support.tls_client import ClientRecords, begin_tls
from tests.support.wire import WireClient, encode_frame, request_entities

REFUSED: Final = "streamhouse_refused_connections_total"
USER: Final = "root"
PASSWORD: Final = "open sesame"
MOST: Final = 64 * 1024
LOGIN_S: Final = 10
QUESTION: Final = request_entities(18, 2).ApiVersionsRequest()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    home = tmp_path_factory.mktemp("tls")
    protocols = ("SASL_PLAINTEXT", "SASL_SSL", "SSL", "PLAINTEXT")
    settings = {"sasl.enabled.mechanisms": "PLAIN", "sasl.server.max.receive.size": str(MOST)}
    secrets = {"BOOTSTRAP_USER": USER, "BOOTSTRAP_PASSWORD": PASSWORD}
    with running_tls_broker(home, *protocols, settings=settings, secrets=secrets) as running:
        yield running


async def connect(tls: TlsBroker, protocol: str) -> WireClient:
    context = tls.context() if protocol.endswith("SSL") else None
    return await WireClient.connect(tls.addresses[protocol], tls=context)


async def log_in(wire: WireClient) -> None:
    handshake = request_entities(17, 1).SaslHandshakeRequest(mechanism="PLAIN")
    assert (await wire.ask(handshake)).error_code == 0
    proof = f"\0{USER}\0{PASSWORD}".encode()
    authenticate = request_entities(36, 2).SaslAuthenticateRequest(auth_bytes=proof)
    assert (await wire.ask(authenticate)).error_code == 0


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_requests_are_small_until_a_client_is_in(
    tls: TlsBroker, topic: str, protocol: str
) -> None:
    # Given a client that announces one byte too many before it is in
    before = metric(tls.broker, REFUSED, reason="malformed")
    async with await connect(tls, protocol) as wire:
        await wire.send(struct.pack(">i", MOST + 1))

        # Then it is gone
        assert await wire.ended()
    assert metric(tls.broker, REFUSED, reason="malformed") == before + 1

    # And when a client is in, it may send what others may
    async with await connect(tls, protocol) as wire:
        await log_in(wire)
        await wire.create_topic(topic)
        batch = build_batch([Record(offset_delta=0, value=bytes(10 * MOST))])
        assert (await wire.produce(topic, batch)).error_code == 0


async def test_few_requests_wait_of_a_client_that_is_not_in(tls: TlsBroker) -> None:
    before = metric(tls.broker, REFUSED, reason="unauthenticated")
    async with await connect(tls, "SASL_PLAINTEXT") as wire:
        await wire.send(b"".join(encode_frame(QUESTION, at) for at in range(500)))
        while not await wire.ended():
            continue  # one may have been answered
    refusals = ("unauthenticated", "malformed")  # as it is sent in one piece, or in several
    assert sum(metric(tls.broker, REFUSED, reason=one) for one in refusals) > before


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SSL"])
async def test_who_only_changes_the_keys_of_tls_is_closed_at_once(
    tls: TlsBroker, tmp_path: Path, protocol: str
) -> None:
    # Given a client that has shaken hands
    before = metric(tls.broker, REFUSED, reason="malformed")
    client, incoming, outgoing = begin_tls(tls.context(), tmp_path / "keys")
    host, _, port = tls.addresses[protocol].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            incoming.write(await reader.read(65_536))
    writer.write(outgoing.read())

    # When it sends new keys, which the broker is to answer with its own, and nothing else
    records = ClientRecords(tmp_path / "keys")
    writer.write(b"".join(records.key_update() for _ in range(5000)))

    # Then it is gone, and others are served
    with suppress(ConnectionError):
        async with asyncio.timeout(LOGIN_S / 2):
            await reader.read(-1)
    writer.transport.abort()
    assert metric(tls.broker, REFUSED, reason="malformed") == before + 1
    async with await connect(tls, protocol) as other:
        assert (await other.ask(QUESTION)).error_code == 0


async def test_what_comes_behind_a_failed_login_is_not_looked_at(tls: TlsBroker) -> None:
    # Given a client that sends requests together with a wrong password
    handshake = request_entities(17, 1).SaslHandshakeRequest(mechanism="PLAIN")
    wrong = request_entities(36, 2).SaslAuthenticateRequest(auth_bytes=b"\0root\0wrong")
    async with await connect(tls, "SASL_PLAINTEXT") as wire:
        frames = [encode_frame(handshake, 1), encode_frame(wrong, 2)]
        frames += [encode_frame(QUESTION, at) for at in range(3, 9)]
        await wire.send(b"".join(frames))

        # When it reads, then these two are answered and nothing else
        assert (await wire.receive(handshake))[0] == 1
        correlation_id, answer = await wire.receive(wrong)
        assert (correlation_id, answer.error_code) == (2, 58)
        assert await wire.ended()


@pytest.mark.alone
async def test_who_does_not_begin_or_does_not_end_is_closed_after_ten_seconds(
    tls: TlsBroker,
) -> None:
    # Given clients that stop at each point on their way in, one that is slow, and two that are in
    timed_out = metric(tls.broker, "streamhouse_failed_tls_handshakes_total", reason="timed_out")
    unauthenticated = metric(tls.broker, REFUSED, reason="unauthenticated")
    async with (
        await connect(tls, "SASL_SSL") as secured,
        await connect(tls, "PLAINTEXT") as plain,
        await connect(tls, "SASL_SSL") as inside,
    ):
        await log_in(inside)
        silent = [
            await raw(tls, "SSL"),
            await raw(tls, "SASL_SSL"),
            await raw(tls, "SSL", b"\x16\x03\x01\x02\x00\x01\x00\x01"),
            await raw(tls, "SASL_PLAINTEXT"),
            await raw(tls, "SASL_PLAINTEXT", b"\x00\x00"),
            await raw(tls, "SASL_PLAINTEXT", encode_frame(QUESTION, 1)),
            await raw(tls, "SASL_PLAINTEXT", drip=True),
        ]
        began_s = time.monotonic()

        # When time goes by
        ended = [asyncio.create_task(end()) for end in (*silent, secured.ended)]
        done, _ = await asyncio.wait(ended, timeout=LOGIN_S + 5)

        # Then those are closed, not before their time, and those that are in go on
        assert len(done) == len(ended)
        assert LOGIN_S - 1 < time.monotonic() - began_s < LOGIN_S + 4
        for client in (plain, inside):
            assert (await client.ask(QUESTION)).error_code == 0
        assert all(await asyncio.gather(*ended))
    assert metric(tls.broker, REFUSED, reason="unauthenticated") == unauthenticated + 5
    counted = metric(tls.broker, "streamhouse_failed_tls_handshakes_total", reason="timed_out")
    assert counted == timed_out + 3


async def raw(
    tls: TlsBroker, protocol: str, data: bytes = b"", *, drip: bool = False
) -> Callable[[], Coroutine[Any, Any, bool]]:
    """Connect without any protocol; return what waits for the broker to end it."""
    host, _, port = tls.addresses[protocol].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)

    async def ended() -> bool:
        dripping = asyncio.create_task(drops(writer)) if drip else None
        try:
            while await reader.read(4096):
                continue
        except ConnectionError:
            return True
        finally:
            if dripping is not None:
                dripping.cancel()
            writer.transport.abort()
        return True

    return ended


async def drops(writer: asyncio.StreamWriter) -> None:
    """Send a request so slowly that it would take an hour, but never nothing for long."""
    for byte in struct.pack(">i", 3600) + bytes(3600):
        writer.write(bytes([byte]))
        await asyncio.sleep(1)


def test_of_a_client_that_is_not_in_no_memory_is_taken_ahead() -> None:
    # Given a frame that is announced to be as large as it may be
    buffer = FrameBuffer(bytearray(1024), max_frame_bytes=2**20)
    buffer.distrust(MOST)
    content = bytes(range(256)) * (MOST // 256)
    stream = struct.pack(">i", MOST) + content
    frames: list[bytearray] = []

    # When it comes in pieces
    while stream:
        room = buffer.get_buffer()
        count = min(len(room), len(stream), 700)
        room[:count] = stream[:count]
        stream = stream[count:]
        frames += buffer.received(count)

        # Then there is never room for more than as much again
        if not frames:
            assert len(buffer.get_buffer()) <= max(buffer.received_bytes, FIRST_BYTES)
    assert frames == [content]
