"""Certificates that change while a broker runs, and those that expire."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from broker.configs.broker_configs import read_broker_config
from broker.security.tls import Tls
from protocol.certificate import subject_name
from tests.support.certificates import Authority, Certificate, make_authority, write_file
from tests.support.tls import TlsBroker, metric, running_tls_broker
from tests.support.wire import ConnectionEnded, WireClient, encode_frame, request_entities

QUESTION: Final = request_entities(18, 2).ApiVersionsRequest()
TAKEN_S: Final = 15.0
GLANCE_S: Final = 0.1
EXPIRES: Final = "streamhouse_tls_certificate_expires_timestamp_seconds"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    home = tmp_path_factory.mktemp("tls")
    with running_tls_broker(home, "SSL", settings={"ssl.client.auth": "required"}) as running:
        yield running


@pytest.fixture
async def alice(tls: TlsBroker) -> AsyncIterator[ssl.SSLContext]:
    """Return what alice connects with; the broker's files are as they were afterwards."""
    context = tls.context(tls.certificate("CN=alice"))
    yield context
    tls.authority.write_truststore(tls.truststore)
    restored = tls.authority.issue()
    restored.write_keystore(tls.keystore)
    await taken_over(tls, restored)


async def is_served(tls: TlsBroker, context: ssl.SSLContext) -> bool:
    """Whether a new connection is."""
    try:
        async with await WireClient.connect(tls.addresses["SSL"], tls=context) as wire:
            return bool((await wire.ask(QUESTION)).error_code == 0)
    except (ssl.SSLError, ConnectionEnded):
        return False


async def shown(tls: TlsBroker) -> bytes:
    """Return the certificate that the broker shows to new connections."""
    host, _, port = tls.addresses["SSL"].rpartition(":")
    pem = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
    return ssl.PEM_cert_to_DER_cert(pem)


async def taken_over(tls: TlsBroker, certificate: Certificate) -> None:
    """Wait until new connections are shown that certificate."""
    expected = certificate.certificate.public_bytes(Encoding.DER)
    async with asyncio.timeout(TAKEN_S):
        while await shown(tls) != expected:
            await asyncio.sleep(GLANCE_S)


async def logged(tls: TlsBroker, event: str, *, times: int) -> None:
    """Wait until the log tells of something so often."""
    async with asyncio.timeout(TAKEN_S):
        while len(tls.log_lines(event)) < times:
            await asyncio.sleep(GLANCE_S)


async def test_a_new_certificate_counts_for_new_connections(
    tls: TlsBroker, alice: ssl.SSLContext
) -> None:
    # Given a connection
    async with await WireClient.connect(tls.addresses["SSL"], tls=alice) as old:
        # When the broker's certificate is replaced
        renewed = tls.authority.issue("CN=localhost,O=Renewed")
        renewed.write_keystore(tls.keystore)
        await taken_over(tls, renewed)

        # Then new connections are shown it, and the old one goes on
        assert await is_served(tls, alice)
        assert (await old.ask(QUESTION)).error_code == 0
    assert metric(tls.broker, EXPIRES) == renewed.certificate.not_valid_after_utc.timestamp()


@pytest.mark.parametrize("damage", ["half", "key of another", "empty", "removed"])
async def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_once(
    tls: TlsBroker, alice: ssl.SSLContext, damage: str
) -> None:
    # Given a certificate in force
    before, lines = await shown(tls), len(tls.log_lines("certificates not taken over"))
    good, other = tls.authority.issue(), tls.authority.issue()
    whole = good.key_pem() + good.certificate_pem()

    # When its file is damaged, as it is while somebody writes it
    if damage == "removed":
        tls.keystore.unlink()
    else:
        contents = {
            "half": whole[: len(whole) * 3 // 4],
            "key of another": other.key_pem() + good.certificate_pem(),
            "empty": b"",
        }
        write_file(tls.keystore, contents[damage])
    await logged(tls, "certificates not taken over", times=lines + 1)

    # Then new connections get what they got, and the log tells of it once
    assert await is_served(tls, alice)
    assert await shown(tls) == before

    # And when the file is whole, it counts
    write_file(tls.keystore, whole)
    await taken_over(tls, good)
    assert len(tls.log_lines("certificates not taken over")) == lines + 1
    assert "PRIVATE KEY" not in tls.broker.log.read_text()


def test_a_file_that_looks_as_old_as_before_counts_all_the_same(tmp_path: Path) -> None:
    # Given a certificate in force, and one that expires later in a file of the same size
    authority, keystore = make_authority(), tmp_path / "keystore.pem"
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=20)
    content = [
        issued.key_pem() + issued.certificate_pem()
        for issued in (authority.issue(not_after=soon + timedelta(days=n)) for n in range(2))
    ]
    size = max(map(len, content))
    write_file(keystore, content[0].ljust(size, b"\n"))
    tls = Tls(read_broker_config({"ssl.keystore.location": str(keystore)}).security, "")
    assert tls.expires_s() == soon.timestamp()
    found = keystore.stat()

    # When that one is copied over it with the time that it had (or a mode is mended: both change
    # nothing but the time of the last change of status)
    keystore.write_bytes(content[1].ljust(size, b"\n"))
    os.utime(keystore, ns=(found.st_atime_ns, found.st_mtime_ns))
    tls.refresh()

    # Then it is in force
    assert tls.expires_s() == (soon + timedelta(days=1)).timestamp()


async def test_a_new_truststore_counts_for_new_connections(
    tls: TlsBroker, alice: ssl.SSLContext
) -> None:
    # Given alice's connection, and bob, whom an authority has signed that is not trusted
    authority = make_authority("Another Authority")
    bob = tls.context(signed(tls, authority))
    assert not await is_served(tls, bob)
    async with await WireClient.connect(tls.addresses["SSL"], tls=alice) as old:
        # When that authority takes the place of the other one
        authority.write_truststore(tls.truststore)
        async with asyncio.timeout(TAKEN_S):
            while not await is_served(tls, bob):
                await asyncio.sleep(GLANCE_S)

        # Then bob comes in and alice does not any more, but where she is already
        assert not await is_served(tls, alice)
        assert (await old.ask(QUESTION)).error_code == 0


async def test_a_certificate_that_expires_ends_with_its_time(
    tls: TlsBroker, alice: ssl.SSLContext
) -> None:
    # Given a certificate of the broker's that is good for seconds
    assert await is_served(tls, alice)
    short = tls.authority.issue(not_after=datetime.now(UTC) + timedelta(seconds=4))
    short.write_keystore(tls.keystore)
    await taken_over(tls, short)

    # When its time is over
    async with asyncio.timeout(TAKEN_S):
        while await is_served(tls, alice):
            await asyncio.sleep(GLANCE_S)

    # Then clients refuse it; the broker serves it all the same, has warned, and takes the next one
    assert subject_name(await shown(tls)) == "CN=localhost"
    assert tls.log_lines("certificate expires soon, or has")
    renewed = tls.authority.issue()
    renewed.write_keystore(tls.keystore)
    await taken_over(tls, renewed)
    assert await is_served(tls, alice)


async def test_a_client_whose_certificate_has_expired_cannot_resume_its_session(
    tls: TlsBroker, alice: ssl.SSLContext
) -> None:
    # Given a session of a client whose certificate is good for seconds
    until = datetime.now(UTC) + timedelta(seconds=3)
    certificate = tls.authority.issue("CN=carol", names=(), not_after=until)
    carol = tls.context(certificate.write_keystore(tls.home / "carol.pem"))
    session = await asyncio.to_thread(session_of, tls, carol, None)
    assert session is not None

    # When its time is over, then the session is worth nothing, either
    async with asyncio.timeout(TAKEN_S):
        while await asyncio.to_thread(session_of, tls, carol, session) is not None:
            await asyncio.sleep(GLANCE_S)
    assert metric(tls.broker, "streamhouse_failed_tls_handshakes_total", reason="expired")


def session_of(
    tls: TlsBroker, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> ssl.SSLSession | None:
    """Return the session of a client that is served; None of one that is not."""
    host, _, port = tls.addresses["SSL"].rpartition(":")
    try:
        with (
            socket.create_connection((host, int(port))) as raw,
            context.wrap_socket(raw, server_hostname=host, session=session) as secured,
        ):
            secured.sendall(encode_frame(QUESTION, 1))
            return secured.session if secured.recv(8) else None
    except (ssl.SSLError, ConnectionError):
        return None


def signed(tls: TlsBroker, authority: Authority) -> Path:
    return authority.issue("CN=bob", names=()).write_keystore(tls.home / "bob.pem")
