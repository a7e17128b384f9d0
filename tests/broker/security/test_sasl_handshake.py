"""Who is let in on a listener with SASL, in which order of steps; Apache Kafka 4.3.1 was asked.

Where it answers a request that a stranger may not send with an empty response (Metadata between
handshake and authentication), this broker does not parse it, and closes.
"""

import datetime as dt
import struct
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i64Timedelta

from broker.api_table import APIS
from tests.support.broker import BrokerProcess
from tests.support.sasl import (
    ADMIN,
    MECHANISMS,
    PASSWORD,
    SaslClient,
    Scram,
    api_versions,
    authenticate,
    handshake,
    metadata,
    plain,
    running_sasl_broker,
)
from tests.support.wire import ConnectionEnded, WireClient, encode_frame, request_entities

GOOD = plain(ADMIN, PASSWORD)
BAD = plain(ADMIN, "wrong")
DELAY_S = 0.1
MAX_EARLY_BYTES = 65_536


@pytest.fixture(scope="module")
def sasl_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_sasl_broker(tmp_path_factory.mktemp("sasl")) as running:
        yield running


@pytest.fixture
async def client(sasl_broker: BrokerProcess) -> AsyncIterator[SaslClient]:
    async with await SaslClient.connect(sasl_broker.bootstrap) as connected:
        yield connected


async def test_on_a_listener_without_sasl_there_is_no_state_for_it(wire: WireClient) -> None:
    answers = [await wire.ask(handshake("PLAIN", version)) for version in (0, 1)]
    answers += [await wire.ask(authenticate(b"", version)) for version in (0, 1, 2)]
    assert {one.error_code for one in answers} == {ErrorCode.illegal_sasl_state}
    assert answers[0].mechanisms == ()
    assert (await wire.ask(metadata())).brokers


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_who_logs_in_may_ask_anything(client: SaslClient, mechanism: str) -> None:
    await client.ask(api_versions())
    answer = await client.log_in(mechanism)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert answer.session_lifetime.total_seconds() == 0
    assert (await client.ask(metadata())).brokers


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_version_of_authenticate_lets_in(client: SaslClient, version: int) -> None:
    await client.begin("PLAIN")
    assert (await client.ask(authenticate(GOOD, version))).error_code == 0
    assert (await client.ask(metadata())).brokers


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", ["", "GSSAPI", "OAUTHBEARER", "plain"])
async def test_a_mechanism_that_is_not_enabled_ends_it(
    client: SaslClient, version: int, mechanism: str
) -> None:
    answer = await client.ask(handshake(mechanism, version))
    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
    assert answer.mechanisms == MECHANISMS
    assert await client.ended()


async def send_raw(client: SaslClient, message: bytes) -> bytes:
    await client.send(struct.pack(">i", len(message)) + message)
    return await client.receive_frame()


async def test_after_handshake_v0_messages_have_no_header(client: SaslClient) -> None:
    await client.ask(handshake("SCRAM-SHA-512", 0))
    scram = Scram("SCRAM-SHA-512", ADMIN, PASSWORD)
    assert (await send_raw(client, scram.last(await send_raw(client, scram.first())))).startswith(
        b"v="
    )
    assert (await client.ask(metadata())).brokers


@pytest.mark.parametrize("message", [BAD, b"", encode_frame(authenticate(GOOD), 1)[4:]])
async def test_after_handshake_v0_a_failure_has_no_answer(
    client: SaslClient, message: bytes
) -> None:
    await client.ask(handshake("PLAIN", 0))
    with pytest.raises(ConnectionEnded):
        await send_raw(client, message)


@pytest.mark.parametrize(
    "steps",
    [
        [authenticate(GOOD)],
        [api_versions(), authenticate(GOOD)],
        [metadata()],
        [api_versions(), metadata()],
        [handshake("PLAIN"), metadata()],
        [api_versions(), api_versions()],
    ],
)
async def test_whoever_goes_another_way_is_not_answered(
    client: SaslClient, steps: list[Any]
) -> None:
    *good, bad = steps
    for step in good:
        assert (await client.ask(step)).error_code == 0
    await client.send(encode_frame(bad, 1))
    assert await client.ended()


@pytest.mark.parametrize("key", sorted(APIS.keys() - {17, 18, 36}))
async def test_no_other_api_is_answered_before_authentication(
    sasl_broker: BrokerProcess, key: int
) -> None:
    async with await SaslClient.connect(sasl_broker.bootstrap) as client:
        await client.send(struct.pack(">ihhih", 26, key, APIS[key].high, 1, -1) + bytes(16))
        assert await client.ended()


@pytest.mark.parametrize("step", [handshake("PLAIN"), handshake("PLAIN", 0), api_versions()])
async def test_a_step_back_is_answered_and_ends_it(client: SaslClient, step: Any) -> None:
    await client.begin("PLAIN")
    assert (await client.ask(step)).error_code is ErrorCode.illegal_sasl_state
    assert await client.ended()


async def test_versions_that_do_not_exist_are_told_before_authentication(
    client: SaslClient,
) -> None:
    # Given a client from the future, which asks again with what it is told
    frame = encode_frame(api_versions(), 7)
    await client.send(frame[:6] + struct.pack(">h", 99) + frame[8:])
    told = await client.receive_frame()
    assert told[4:6] == struct.pack(">h", ErrorCode.unsupported_version)
    assert (await client.ask(api_versions())).error_code == 0
    assert (await client.log_in()).error_code == 0


async def test_what_is_sent_behind_a_login_is_answered_in_order(client: SaslClient) -> None:
    requests = [api_versions(), handshake("PLAIN"), authenticate(GOOD), metadata(), metadata()]
    await client.send(b"".join(encode_frame(one, at) for at, one in enumerate(requests)))
    for at, request in enumerate(requests):
        assert (await client.receive(request))[0] == at


async def test_what_is_sent_behind_a_failed_login_is_dropped(client: SaslClient) -> None:
    requests = [handshake("PLAIN"), authenticate(BAD), authenticate(GOOD), metadata()]
    await client.send(b"".join(encode_frame(one, at) for at, one in enumerate(requests)))
    await client.receive(requests[0])
    _, answer = await client.receive(requests[1])
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert await client.ended()


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", BAD),
        ("PLAIN", plain("nobody", PASSWORD)),
        ("PLAIN", b""),
        ("PLAIN", b"\0\0"),
        ("PLAIN", GOOD + b"\0"),
        ("SCRAM-SHA-256", b""),
        ("SCRAM-SHA-256", GOOD),
        ("SCRAM-SHA-512", b"p=tls-unique,,n=admin,r=abc"),
    ],
)
async def test_all_failures_look_alike_and_take_their_time(
    client: SaslClient, mechanism: str, message: bytes
) -> None:
    await client.begin(mechanism)
    began_s = time.monotonic()
    answer = await client.ask(authenticate(message))
    assert time.monotonic() - began_s >= DELAY_S
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert answer.error_message == (
        f"Authentication failed: invalid credentials for SASL {mechanism}."
    )
    assert answer.auth_bytes == b""
    assert await client.ended()


async def test_nobody_acts_as_somebody_else(client: SaslClient) -> None:
    await client.begin("PLAIN")
    answer = await client.ask(authenticate(b"root" + GOOD))
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert await client.ended()


async def test_a_message_of_more_than_is_read_before_authentication_ends_it(
    client: SaslClient,
) -> None:
    await client.begin("PLAIN")
    with pytest.raises(ConnectionEnded):
        await client.ask(authenticate(b"x" * MAX_EARLY_BYTES))


async def test_who_is_in_cannot_go_on_with_an_exchange_that_is_over(client: SaslClient) -> None:
    await client.log_in()
    again = [await client.ask(authenticate(GOOD)), await client.ask(handshake("PLAIN"))]
    assert {one.error_code for one in again} == {ErrorCode.illegal_sasl_state}
    assert (await client.ask(metadata())).brokers


async def test_who_is_in_is_told_that_there_are_no_delegation_tokens(client: SaslClient) -> None:
    await client.log_in()
    period = i64Timedelta.parse(dt.timedelta(seconds=1))
    requests = [
        request_entities(38, 1).CreateDelegationTokenRequest(renewers=(), max_lifetime=period),
        request_entities(39, 2).RenewDelegationTokenRequest(hmac=b"x", renew_period=period),
        request_entities(40, 2).ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period=period),
        request_entities(41, 3).DescribeDelegationTokenRequest(owners=None),
    ]
    answers = [await client.ask(request) for request in requests]
    assert {one.error_code for one in answers} == {ErrorCode.delegation_token_auth_disabled}
    assert answers[0].principal_name == ADMIN
