"""Users of PLAIN and SCRAM: what a change does at once, and that nobody finds out who exists."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Iterator
from random import Random

import pytest
from kio.schema.errors import ErrorCode

from broker.configs.entity_configs import EntityConfigs
from broker.security.sasl_credentials import BOOTSTRAP_ITERATIONS, Credentials
from broker.security.sasl_passwords import Passwords
from protocol.scram import ScramCredential, ScramMechanism
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from tests.support.broker import BrokerProcess
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.host import Stopwatch
from tests.support.ports import free_ports
from tests.support.sasl import (
    ADMIN,
    MECHANISMS,
    PASSWORD,
    SaslClient,
    Scram,
    authenticate,
    password_request,
    plain,
    running_sasl_broker,
)
from tests.support.wire import request_entities

SHA_256 = ScramMechanism.SCRAM_SHA_256
SHA_512 = ScramMechanism.SCRAM_SHA_512
HOST = "192.0.2.1"
FAILED = ErrorCode.sasl_authentication_failed


@pytest.fixture(scope="module")
def sasl_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_sasl_broker(tmp_path_factory.mktemp("sasl-credentials")) as running:
        yield running


@pytest.fixture
async def admin(sasl_broker: BrokerProcess) -> AsyncIterator[SaslClient]:
    async with await SaslClient.connect(sasl_broker.bootstrap) as client:
        assert (await client.log_in()).error_code == 0
        yield client


async def log_in(broker: BrokerProcess, mechanism: str, user: str, password: str) -> ErrorCode:
    async with await SaslClient.connect(broker.bootstrap) as client:
        code: ErrorCode = (await client.log_in(mechanism, user, password)).error_code
        return code


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_user_comes_changes_and_goes(
    sasl_broker: BrokerProcess, admin: SaslClient, mechanism: str
) -> None:
    # Given nobody of that name
    user = f"user, of={mechanism}"
    claimed = user if mechanism == "PLAIN" else user.replace("=", "=3D").replace(",", "=2C")
    assert await log_in(sasl_broker, mechanism, claimed, "first") is FAILED

    # When the user is made, then it gets in, and with the next password only with that one
    await admin.set_password(user, "first")
    assert await log_in(sasl_broker, mechanism, claimed, "first") == 0
    await admin.set_password(user, "second")
    assert await log_in(sasl_broker, mechanism, claimed, "first") is FAILED
    assert await log_in(sasl_broker, mechanism, claimed, "second") == 0

    # And once it is deleted it does not
    await admin.delete_user(user)
    assert await log_in(sasl_broker, mechanism, claimed, "second") is FAILED


async def test_a_user_that_goes_during_an_exchange_does_not_get_in(
    sasl_broker: BrokerProcess, admin: SaslClient
) -> None:
    # Given a user in the middle of an exchange
    await admin.set_password("leaving", "secret")
    scram = Scram("SCRAM-SHA-256", "leaving", "secret")
    async with await SaslClient.connect(sasl_broker.bootstrap) as client:
        await client.begin("SCRAM-SHA-256")
        challenge = (await client.ask(authenticate(scram.first()))).auth_bytes

        # When it is deleted, then its password is worth nothing any more
        await admin.delete_user("leaving")
        assert (await client.ask(authenticate(scram.last(challenge)))).error_code is FAILED


async def challenge_of(broker: BrokerProcess, user: str) -> dict[str, str]:
    async with await SaslClient.connect(broker.bootstrap) as client:
        await client.begin("SCRAM-SHA-256")
        answer = await client.ask(authenticate(Scram("SCRAM-SHA-256", user, "x").first()))
        assert answer.error_code == 0
        return dict(part.split("=", 1) for part in answer.auth_bytes.decode().split(","))


async def test_a_challenge_does_not_tell_whether_there_is_such_a_user(
    sasl_broker: BrokerProcess,
) -> None:
    # Given what the server says to an existing user, and twice to somebody who does not exist
    known = await challenge_of(sasl_broker, ADMIN)
    unknown = [await challenge_of(sasl_broker, "nobody") for _ in range(2)]
    other = await challenge_of(sasl_broker, "nobody else")

    # Then they have salts of their own, which stay, of the same kind
    assert unknown[0]["s"] == unknown[1]["s"] != other["s"] != known["s"]
    assert unknown[0]["r"] != unknown[1]["r"]
    kinds = {(len(base64.b64decode(one["s"])), one["i"]) for one in (known, *unknown, other)}
    assert len(kinds) == 1


@pytest.mark.parametrize("user", [ADMIN, "nobody"])
async def test_a_salt_is_text(sasl_broker: BrokerProcess, user: str) -> None:
    # Those that Java's tools make are digits and small letters, and kafka-ts reads no others
    salt = base64.b64decode((await challenge_of(sasl_broker, user))["s"])
    assert re.fullmatch(rb"[0-9a-z]{32}", salt)


async def test_a_name_that_could_not_be_told_by_plain_is_none(admin: SaslClient) -> None:
    (result,) = (await admin.ask(password_request("a\0b", "secret"))).results
    assert result.error_code is ErrorCode.unacceptable_credential


async def test_what_unknown_users_get_is_no_user(admin: SaslClient) -> None:
    request = request_entities(50, 0).DescribeUserScramCredentialsRequest(users=None)
    assert [one.user for one in (await admin.ask(request)).results] == [ADMIN]


async def test_metrics_count_by_mechanism_and_no_line_has_a_secret(
    sasl_broker: BrokerProcess,
) -> None:
    for mechanism in MECHANISMS:
        await log_in(sasl_broker, mechanism, "evil\n\x1b[31m", "very-secret-password")
    reader, writer = await asyncio.open_connection(*sasl_broker.http.split(":"))
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    metrics = (await reader.read()).decode()
    writer.close()
    for mechanism in MECHANISMS:
        line = f'streamhouse_failed_authentications_total{{mechanism="{mechanism}"}} '
        assert float(metrics.partition(line)[2].split("\n")[0]) >= 1
    assert 'streamhouse_authentications_total{mechanism="PLAIN"}' in metrics
    log = sasl_broker.log.read_text()
    assert r'"user": "evil\\n\\x1b[31m", "ip": "127.0.0.1"' in log
    for secret in ("very-secret-password", PASSWORD, "\x1b"):
        assert secret not in log


async def test_of_brokers_that_start_at_once_one_makes_the_first_user() -> None:
    # Given three brokers with the same settings and an empty database
    store = MemoryMetadata(Random(7))
    copies = [EntityConfigs(store) for _ in range(3)]
    brokers = [Credentials(copy) for copy in copies]

    # When they start
    await asyncio.gather(*(one.prepare() for one in brokers))
    made = await asyncio.gather(*(one.add_user("admin", "secret") for one in brokers))
    for copy in copies:
        await copy.refresh()

    # Then all have the same credentials, whole, for every mechanism, and the same secret
    assert any(made)
    assert not await brokers[0].add_user("admin", "another")
    for mechanism in ScramMechanism:
        (found,) = {repr(one.find("admin", mechanism)) for one in brokers}
        assert f"iterations={BOOTSTRAP_ITERATIONS}" in found
        assert len({one.make_up("x", mechanism).salt for one in brokers}) == 1
    passwords = Passwords(brokers[2])
    assert await passwords.check("admin", b"secret", HOST)
    assert not await passwords.check("admin", b"another", HOST)
    assert not await passwords.check("nobody", b"secret", HOST)
    passwords.close()


def of_user(user: str, salt: bytes, iterations: int) -> EntityChange:
    credential = ScramCredential(salt=salt, stored_key=b"k", server_key=b"k", iterations=iterations)
    changes = {"SCRAM-SHA-256": credential.encode()}
    return EntityChange(entity=Entity(EntityKind.SCRAM, user), changes=changes)


async def test_made_up_credentials_are_of_the_kinds_that_others_have() -> None:
    # Given users from tools of two kinds
    configs = EntityConfigs(MemoryMetadata(Random(7)))
    credentials = Credentials(configs)
    await credentials.prepare()
    for user, salt, rounds in (
        ("java", b"1rq8tqmzt9hm4j9p2a5s0i3ab7", 8192),
        ("c", bytes(64), 4096),
    ):
        await configs.alter([of_user(user, salt, rounds)])

    # Then those that are made up are of both, and nothing else
    made_up = [credentials.make_up(f"user-{at}", SHA_256) for at in range(200)]
    kinds = {(len(one.salt), one.iterations, one.salt.isalnum()) for one in made_up}
    assert kinds == {(26, 8192, True), (64, 4096, False)}
    assert len({one.salt for one in made_up}) == len(made_up)
    assert credentials.make_up("x", SHA_512).iterations == 4096

    # And when the only user of a kind goes, or changes, then so do they
    gone = {"SCRAM-SHA-256": None}
    await configs.alter([EntityChange(entity=Entity(EntityKind.SCRAM, "java"), changes=gone)])
    await configs.alter([of_user("c", bytes(16), 4097)])
    made_up = [credentials.make_up(f"user-{at}", SHA_256) for at in range(200)]
    assert {(len(one.salt), one.iterations) for one in made_up} == {(16, 4097)}

    # And who learns only later of the users makes them up alike
    late = Credentials(configs)
    assert [late.make_up(f"user-{at}", SHA_256) for at in range(200)] == made_up


async def test_who_logs_in_after_a_change_does_not_wait_for_a_look_at_all_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given many users, and a login
    configs = EntityConfigs(MemoryMetadata(Random(7)))
    credentials = Credentials(configs)
    await configs.alter([of_user(f"user-{at}", bytes(32), 4096) for at in range(1000)])
    assert credentials.make_up("nobody", SHA_256).iterations == 4096

    # When one of them changes, and somebody logs in
    decoded: list[str] = []
    decode = ScramCredential.decode

    def counted(text: str) -> ScramCredential:
        decoded.append(text)
        return decode(text)

    monkeypatch.setattr(ScramCredential, "decode", counted)
    await configs.alter([of_user("user-7", bytes(32), 8192)])
    kinds = {credentials.make_up(f"nobody-{at}", SHA_256).iterations for at in range(50)}

    # Then only what has changed was looked at
    assert kinds == {4096, 8192}
    assert len(decoded) == 1


async def test_all_brokers_know_a_new_user_soon(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Given two brokers of one cluster that started at once with the same first user
    data = tmp_path_factory.mktemp("sasl-workers")
    first_port = free_ports(4)
    http = f"127.0.0.1:{first_port + 2}"
    with running_sasl_broker(
        *(data, "--workers=2", f"--http={http}"), address=f"127.0.0.1:{first_port}"
    ) as both:
        one, other = both.bootstrap.split(",")
        async with await SaslClient.connect(one) as admin:
            assert (await admin.log_in()).error_code == 0

            # When one of them makes a user
            await admin.set_password("new", "secret")

        # Then the other one lets it in within a second or so
        stopwatch = Stopwatch()
        while True:
            async with await SaslClient.connect(other) as client:
                await client.begin("PLAIN")
                answer = await client.ask(authenticate(plain("new", "secret")))
            if answer.error_code == 0:
                break
            assert stopwatch.is_within(5)
