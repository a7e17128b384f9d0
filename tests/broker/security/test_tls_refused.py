"""Who is not let in at a TLS listener: what they hear, what is counted, that nothing is left."""

import asyncio
import json
import random
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from broker.network.refused_connections import LINES_PER_WINDOW, WINDOW_S, Refused
from tests.support.certificates import make_authority
from tests.support.tls import TlsBroker, metric, running_tls_broker
from tests.support.wire import WireClient, encode_frame, request_entities

FAILED: Final = "streamhouse_failed_tls_handshakes_total"
REFUSED: Final = "streamhouse_refused_connections_total"
QUESTION: Final = encode_frame(request_entities(18, 2).ApiVersionsRequest(), 1)
MANY: Final = 500
SETTLED_S: Final = 15.0
GLANCE_S: Final = 0.05


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    settings = {
        "ssl.client.auth": "required",
        "ssl.enabled.protocols": "TLSv1.3,TLSv1.2",
        "ssl.cipher.suites": "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ssl.principal.mapping.rules": "RULE:^CN=(alice)$/$1/",
        "max.connections": "60",
    }
    home = tmp_path_factory.mktemp("tls")
    with running_tls_broker(home, "SSL", "PLAINTEXT", settings=settings) as running:
        yield running


@pytest.fixture
def alice(tls: TlsBroker) -> ssl.SSLContext:
    return tls.context(tls.certificate("CN=alice"))


def address_of(tls: TlsBroker, protocol: str) -> tuple[str, int]:
    host, _, port = tls.addresses[protocol].rpartition(":")
    return host, int(port)


def knock(tls: TlsBroker, context: ssl.SSLContext) -> bytes:
    """Shake hands; return what comes then, which is nothing if the broker just closes."""
    with (
        socket.create_connection(address_of(tls, "SSL"), timeout=10) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as secured,
    ):
        return secured.recv(8)  # who sends first may hear of a reset and not of the alert


def say(tls: TlsBroker, protocol: str, data: bytes) -> bytes:
    """Send bytes as they are; return all that comes until the broker closes, or resets."""
    with socket.create_connection(address_of(tls, protocol), timeout=10) as raw:
        raw.sendall(data)
        answer = b""
        try:
            while part := raw.recv(4096):
                answer += part
        except ConnectionResetError:
            return answer
        return answer


def without_certificate(tls: TlsBroker) -> ssl.SSLContext:
    return tls.context()


def of_a_stranger(tls: TlsBroker) -> ssl.SSLContext:
    file = make_authority().issue("CN=alice", names=()).write_keystore(tls.home / "stranger.pem")
    return tls.context(file)


def expired(tls: TlsBroker) -> ssl.SSLContext:
    return tls.context(tls.authority.expired("CN=alice").write_keystore(tls.home / "expired.pem"))


def too_early(tls: TlsBroker) -> ssl.SSLContext:
    early = tls.authority.not_yet_valid("CN=alice")
    return tls.context(early.write_keystore(tls.home / "early.pem"))


def with_other_ciphers(tls: TlsBroker) -> ssl.SSLContext:
    context = tls.context(tls.certificate("CN=alice"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    return context


def trusting_nobody(tls: TlsBroker) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=make_authority().certificate_pem().decode())


@pytest.mark.parametrize(
    ("client", "heard", "reason"),
    [
        (without_certificate, "CERTIFICATE_REQUIRED", "no_certificate"),
        (of_a_stranger, "UNKNOWN_CA", "untrusted"),
        (expired, "CERTIFICATE_EXPIRED", "expired"),
        (too_early, "BAD_CERTIFICATE", "not_yet_valid"),
        (with_other_ciphers, "HANDSHAKE_FAILURE", "cipher"),
        (trusting_nobody, "CERTIFICATE_VERIFY_FAILED", "refused_by_client"),
    ],
)
async def test_a_client_hears_why_and_the_broker_counts_it(
    tls: TlsBroker, client: Callable[[TlsBroker], ssl.SSLContext], heard: str, reason: str
) -> None:
    before = metric(tls.broker, FAILED, reason=reason)
    with pytest.raises(ssl.SSLError, match=heard):
        await asyncio.to_thread(knock, tls, client(tls))
    await settled(lambda: metric(tls.broker, FAILED, reason=reason) == before + 1)


async def test_nobody_without_a_name_is_served(tls: TlsBroker) -> None:
    # Given a certificate that is good, whose subject no rule of ssl.principal.mapping.rules matches
    bob = tls.context(tls.certificate("CN=bob"))
    before = metric(tls.broker, REFUSED, reason="no_principal")

    # When its owner asks, then the connection ends without an answer
    with suppress(ConnectionResetError):
        assert await asyncio.to_thread(knock, tls, bob) == b""
    assert metric(tls.broker, REFUSED, reason="no_principal") == before + 1
    assert (
        "no rule of ssl.principal.mapping.rules applies to 'CN=bob'"
        in (tls.log_lines("connection refused")[-1])
    )


@pytest.mark.parametrize(
    ("protocol", "data", "reason", "told"),
    [
        ("SSL", QUESTION, "plaintext_on_tls", "it does not speak TLS"),
        ("SSL", b"GET / HTTP/1.1\r\n\r\n", "plaintext_on_tls", "it does not speak TLS"),
        ("PLAINTEXT", b"\x16\x03\x01\x02\x00\x01\x00\x01", "tls_on_plaintext", "speaks TLS"),
        ("PLAINTEXT", b"GET / HTTP/1.1\r\n\r\n", "malformed", "speaks HTTP"),
    ],
)
async def test_another_protocol_is_closed_at_once_and_named(
    tls: TlsBroker, protocol: str, data: bytes, reason: str, told: str
) -> None:
    before = metric(tls.broker, REFUSED, reason=reason)
    began_s = time.monotonic()
    assert await asyncio.to_thread(say, tls, protocol, data) == b""
    assert time.monotonic() - began_s < 5
    assert metric(tls.broker, REFUSED, reason=reason) == before + 1
    await settled(lambda: told in tls.broker.log.read_text())


async def test_hello_of_nonsense_gets_an_alert(tls: TlsBroker) -> None:
    answer = await asyncio.to_thread(say, tls, "SSL", b"\x16\x03\x01\x00\x10" + b"x" * 16)
    assert answer[:3] == b"\x15\x03\x03"


async def test_what_is_changed_on_its_way_ends_the_connection(
    tls: TlsBroker, alice: ssl.SSLContext
) -> None:
    # Given a client that has shaken hands
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = alice.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    reader, writer = await asyncio.open_connection(*address_of(tls, "SSL"))
    while True:
        try:
            secured.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            incoming.write(await reader.read(65_536))

    # When one bit of its first request is not what it sent
    secured.write(QUESTION)
    data = bytearray(outgoing.read())
    data[-1] ^= 1
    writer.write(data)

    # Then it gets an alert and the end
    async with asyncio.timeout(10):
        rest = await reader.read(-1)
    incoming.write(rest)
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        secured.read()
    writer.close()


async def test_failed_handshakes_leave_nothing_behind(
    tls: TlsBroker, alice: ssl.SSLContext
) -> None:
    # Given as many connections as the broker may have, many times over, each broken off somewhere
    hello = client_hello(alice)
    before, descriptors = tls.connections(), count_descriptors(tls)
    rng = random.Random(8)

    def break_off(how: int) -> None:
        with socket.create_connection(address_of(tls, "SSL"), timeout=10) as raw:
            if how == 0:
                raw.sendall(hello[: rng.randrange(1, len(hello))])
            elif how == 1:
                raw.sendall(hello)
            elif how == 2:
                raw.sendall(hello)
                raw.recv(1)  # in the middle of the server's part
            elif how == 3:
                raw.sendall(hello + rng.randbytes(200))
            if rng.random() < 0.5:  # a reset in place of an end
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def break_off_all() -> None:
        for at in range(MANY):
            break_off(at % 5)

    failed = metric(tls.broker, FAILED)
    await asyncio.to_thread(break_off_all)

    # Then none is open any more, and none has cost more than itself
    await settled(lambda: tls.connections() == before)
    await settled(lambda: count_descriptors(tls) <= descriptors + 2)
    assert MANY / 2 < metric(tls.broker, FAILED) - failed <= MANY  # some never got so far
    assert "Traceback" not in tls.broker.log.read_text()

    # And who comes properly is served
    async with await WireClient.connect(tls.addresses["SSL"], tls=alice) as wire:
        assert (await wire.ask(request_entities(18, 2).ApiVersionsRequest())).error_code == 0


async def test_refusals_do_not_flood_the_log(tls: TlsBroker) -> None:
    # Given a hundred clients that do not speak TLS
    before, began_s = told_of_plaintext(tls), time.monotonic()
    counted = metric(tls.broker, REFUSED, reason="plaintext_on_tls")
    await asyncio.gather(*(asyncio.to_thread(say, tls, "SSL", QUESTION) for _ in range(100)))

    # Then the metric counts them all, and the log tells of some and of how many more there were
    assert metric(tls.broker, REFUSED, reason="plaintext_on_tls") == counted + 100
    windows = (time.monotonic() - began_s) / WINDOW_S + 2  # one was under way, one is
    await settled(lambda: sum(told_of_plaintext(tls)) == sum(before) + 100)
    assert told_of_plaintext(tls)[0] - before[0] <= windows * LINES_PER_WINDOW


def told_of_plaintext(tls: TlsBroker) -> tuple[int, int]:
    """Return how many clients the log has told of one by one, and how many more there were."""
    kind = Refused.PLAINTEXT_ON_TLS
    entries = [json.loads(line) for line in tls.log_lines(f'"kind": "{kind}"')]
    left_out = [entry["count"] for entry in entries if "count" in entry]
    return len(entries) - len(left_out), sum(left_out)


def client_hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def count_descriptors(tls: TlsBroker) -> int:
    return len(list(Path(f"/proc/{tls.broker.pid}/fd").iterdir()))


async def settled(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(SETTLED_S):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(GLANCE_S)
