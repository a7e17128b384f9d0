"""Sessions that end, and clients that authenticate themselves again in time (KIP-368).

Stock clients do it under load in tests/clients/test_security_librdkafka.py and test_security_java.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.sasl import (
    ADMIN,
    MECHANISMS,
    PASSWORD,
    SaslClient,
    api_versions,
    authenticate,
    handshake,
    metadata,
    plain,
    running_sasl_broker,
)
from tests.support.tokens import AUDIENCE, Issuer, ec_key
from tests.support.wire import ConnectionEnded, encode_frame, produce_request

LIFETIME_S = 60
TOKEN_S = 2
GLANCE_S = 0.05
GOOD = authenticate(plain(ADMIN, PASSWORD))
ISSUED = Issuer(keys=[ec_key()])


@pytest.fixture(scope="module")
def sasl_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    home = tmp_path_factory.mktemp("reauthentication")
    configs = {
        "connections.max.reauth.ms": str(LIFETIME_S * 1000),
        "sasl.oauthbearer.jwks.endpoint.url": ISSUED.write_jwks(home / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    mechanisms = (*MECHANISMS, "OAUTHBEARER")
    with running_sasl_broker(home / "data", mechanisms=mechanisms, configs=configs) as running:
        yield running


@pytest.fixture
async def client(sasl_broker: BrokerProcess) -> AsyncIterator[SaslClient]:
    """Return a client that is in."""
    async with await SaslClient.connect(sasl_broker.bootstrap) as connected:
        assert (await connected.log_in()).error_code == 0
        yield connected


def with_token(life_s: float) -> Any:
    token = ISSUED.token("alice", exp=time.time() + life_s)
    return authenticate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())


async def until_ended(client: SaslClient, request: Any) -> None:
    """Ask again and again."""
    with suppress(ConnectionEnded):
        async with asyncio.timeout(TOKEN_S + 5):
            while await client.ask(request):
                await asyncio.sleep(GLANCE_S)


@pytest.mark.parametrize("version", [1, 2])
async def test_clients_are_told_how_long_they_are_in(
    sasl_broker: BrokerProcess, version: int
) -> None:
    async with await SaslClient.connect(sasl_broker.bootstrap) as client:
        await client.begin("PLAIN")
        answer = await client.ask(authenticate(plain(ADMIN, PASSWORD), version))
        assert answer.session_lifetime.total_seconds() == LIFETIME_S


@pytest.mark.parametrize("life_s", [10, 1000])
async def test_what_ends_first_counts(sasl_broker: BrokerProcess, life_s: float) -> None:
    async with await SaslClient.connect(sasl_broker.bootstrap) as client:
        await client.begin("OAUTHBEARER")
        lifetime = (await client.ask(with_token(life_s))).session_lifetime.total_seconds()
        assert min(life_s, LIFETIME_S) - 5 < lifetime <= min(life_s, LIFETIME_S)


async def test_what_is_under_way_is_answered_across_a_reauthentication(
    client: SaslClient, topic: str
) -> None:
    # Given requests that a client sends without waiting for anything
    await client.create_topic(topic)
    requests = [
        produce_request(topic, build_batch([Record(offset_delta=0, value=b"first")])),
        handshake("PLAIN"),
        GOOD,
        produce_request(topic, build_batch([Record(offset_delta=0, value=b"second")])),
        metadata(),
    ]
    await client.send(b"".join(encode_frame(one, at) for at, one in enumerate(requests)))

    # When they are answered, then it is in order, and nothing is lost
    answers = []
    for at, request in enumerate(requests):
        number, answer = await client.receive(request)
        assert number == at
        answers.append(answer)
    offsets = [answers[at].responses[0].partition_responses[0].base_offset for at in (0, 3)]
    assert offsets == [0, 1]
    assert answers[2].session_lifetime.total_seconds() == LIFETIME_S


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", plain(ADMIN, "wrong")),
        ("PLAIN", plain("other", PASSWORD)),
        ("SCRAM-SHA-256", b"n,,n=admin,r=abc"),
        ("OAUTHBEARER", b""),
        ("PLAIN", plain(ADMIN, PASSWORD) + bytes(200_000)),
    ],
)
async def test_nobody_stays_with_another_secret_user_or_mechanism(
    client: SaslClient, mechanism: str, message: bytes
) -> None:
    await client.set_password("other", PASSWORD)
    await client.begin(mechanism)
    answer = await client.ask(authenticate(message))
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert await client.ended()


async def test_a_mechanism_that_is_not_enabled_changes_nothing(client: SaslClient) -> None:
    answer = await client.ask(handshake("GSSAPI"))
    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
    assert (await client.ask(metadata())).brokers


@pytest.mark.parametrize("bad", [metadata(), api_versions(), handshake("PLAIN")])
async def test_between_handshake_and_authentication_nothing_else_is_done(
    client: SaslClient, bad: Any
) -> None:
    await client.begin("PLAIN")
    await client.send(encode_frame(bad, 1))
    try:
        _, answer = await client.receive(bad)
        assert answer.error_code is ErrorCode.illegal_sasl_state
    except ConnectionEnded:
        return
    assert await client.ended()


async def test_it_may_be_done_once_a_second(client: SaslClient) -> None:
    requests = [handshake("PLAIN"), GOOD, handshake("PLAIN")]
    await client.send(b"".join(encode_frame(one, at) for at, one in enumerate(requests)))
    answers = [(await client.receive(one))[1] for one in requests]
    assert [one.error_code for one in answers] == [0, 0, ErrorCode.illegal_sasl_state]
    assert (await client.ask(metadata())).brokers


async def test_it_may_be_done_without_headers(client: SaslClient) -> None:
    message = plain(ADMIN, PASSWORD)
    await client.ask(handshake("PLAIN", 0))
    await client.send(len(message).to_bytes(4) + message)
    assert await client.receive_frame() == b""
    assert (await client.ask(metadata())).brokers


async def test_a_session_that_has_expired_can_only_be_begun_again(
    sasl_broker: BrokerProcess,
) -> None:
    # Given three clients with tokens that expire soon
    clients = [await SaslClient.connect(sasl_broker.bootstrap) for _ in range(3)]
    began_s = time.monotonic()
    for one in clients:
        await one.begin("OAUTHBEARER")
        assert (await one.ask(with_token(TOKEN_S))).error_code == 0
    busy, asking, again = clients

    # When one of them goes on as if nothing were, then its connection is closed, not earlier
    await until_ended(busy, metadata())
    assert TOKEN_S <= time.monotonic() - began_s + GLANCE_S < TOKEN_S + 5

    # And so is that of one who asks for versions; who authenticates itself again may stay
    await until_ended(asking, api_versions())
    await again.begin("OAUTHBEARER")
    assert (await again.ask(with_token(30))).error_code == 0
    assert (await again.ask(metadata())).brokers
    for one in clients:
        async with one:
            continue
    assert "the session has expired" in sasl_broker.log.read_text()
