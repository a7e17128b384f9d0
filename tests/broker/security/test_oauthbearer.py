"""OAUTHBEARER: which tokens let in."""

import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from broker.security.login import Identity
from broker.security.oauth_key_ring import LOOK_S
from broker.security.oauth_tokens import TokenCheck, TokenRules
from protocol.sasl import AuthenticationFailed, FailureReason
from tests.support.broker import BrokerProcess
from tests.support.sasl import SaslClient, authenticate, metadata, running_sasl_broker
from tests.support.token_keys import Clock, Source, ring_of
from tests.support.tokens import AUDIENCE, ISSUER, Issuer, ec_key, rsa_key

RULES = TokenRules(
    audiences=("other", AUDIENCE), issuer=ISSUER, subject_claim="sub", scope_claim="scope", skew_s=1
)
ISSUED = Issuer(keys=[ec_key(), rsa_key()])
TAKEN_S = 30 * LOOK_S


async def check(token: str, rules: TokenRules = RULES) -> Identity:
    ring = await ring_of(Source(ISSUED), Clock())
    return await TokenCheck(ring, rules, lambda: time.time_ns() // 1_000_000).check(token)


@pytest.mark.parametrize("key", ISSUED.keys, ids=["EC", "RSA"])
async def test_a_good_token_says_who_it_is_and_until_when(key: Any) -> None:
    claims = ISSUED.claims("alice", aud=["another", AUDIENCE], scope=["read", "write"])
    assert await check(key.sign(claims)) == Identity(
        user="alice", expires_ms=int(claims["exp"]) * 1000
    )


async def test_a_token_need_not_name_its_key() -> None:
    assert (await check(ISSUED.keys[1].sign(ISSUED.claims("bob"), kid=""))).user == "bob"


async def test_the_name_may_be_in_another_claim() -> None:
    rules = TokenRules(
        audiences=(), issuer="", subject_claim="client_id", scope_claim="scope", skew_s=0
    )
    claims = ISSUED.claims("x", client_id="carol", sub=None, aud=None, iss=None)
    assert (await check(ISSUED.keys[0].sign(claims), rules)).user == "carol"


@pytest.mark.parametrize("wrong", sorted(ISSUED.refused_tokens("alice")))
async def test_a_wrong_token_is_refused(wrong: str) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        await check(ISSUED.refused_tokens("alice")[wrong])
    reasons = (FailureReason.CREDENTIALS, FailureReason.MALFORMED)
    assert failed.value.reason in reasons


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": "soon"},
        {"exp": True},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": 10**400},
        {"exp": 1e306},
        {"exp": -1},
        {"iat": "now"},
        {"iat": 10**12},
        {"nbf": []},
        {"sub": 7},
        {"sub": ["alice"]},
        {"sub": "a\0b"},
        {"sub": "a" * 2000},
        {"sub": "\ud800"},
        {"scope": 7},
        {"scope": [7]},
        {"aud": 7},
    ],
)
async def test_claims_that_make_no_sense_are_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(AuthenticationFailed):
        await check(ISSUED.keys[0].sign({**ISSUED.claims("alice"), **claims}))


async def test_a_header_with_demands_is_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        await check(ISSUED.keys[0].sign(ISSUED.claims("alice"), crit=["exp"]))


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"alg": None},
        {"alg": ["ES256"]},
        {"alg": {"ES256": 1}},
        {"alg": "ES256", "kid": ["ec-1"]},
        {"alg": "ES256", "kid": {}},
        {"alg": "ES256", "b64": False},
        {"alg": "ES256", "x5c": ["MII"] * 10_000},
        [],
        7,
    ],
)
async def test_a_header_without_sense_is_refused(header: Any) -> None:
    with pytest.raises(AuthenticationFailed):
        await check(with_header(ISSUED.token("alice"), header))


def with_header(token: str, header: Any) -> str:
    encoded = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    return ".".join((encoded, *token.split(".")[1:]))


@given(token=st.text(max_size=60) | st.just("[" * 50_000))
async def test_whatever_comes_is_refused(token: str) -> None:
    ring = await ring_of(Source(ISSUED), Clock())
    tokens = TokenCheck(ring, RULES, lambda: 0)
    for one in (token, f"{token}..", f"eyJhbGciOiJFUzI1NiJ9.{token}.{token}"):
        with pytest.raises(AuthenticationFailed):
            await tokens.check(one)


# --- over the wire


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ISSUED.write_jwks(tmp_path_factory.mktemp("keys") / "jwks.json")


@pytest.fixture(scope="module")
def token_broker(
    tmp_path_factory: pytest.TempPathFactory, keys_file: Path
) -> Iterator[BrokerProcess]:
    configs = {
        "sasl.oauthbearer.jwks.endpoint.url": keys_file.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.clock.skew.seconds": "0",
    }
    data = tmp_path_factory.mktemp("oauthbearer")
    with running_sasl_broker(data, mechanisms=("OAUTHBEARER",), configs=configs, user="") as one:
        yield one


@pytest.fixture
async def client(token_broker: BrokerProcess) -> AsyncIterator[SaslClient]:
    async with await SaslClient.connect(token_broker.bootstrap) as connected:
        await connected.begin("OAUTHBEARER")
        yield connected


def message(token: str, header: str = "n,,") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01traceId=7\x01\x01".replace(
        "traceId", "trace"
    ).encode()


async def test_a_session_lasts_as_long_as_its_token(client: SaslClient) -> None:
    answer = await client.ask(authenticate(message(ISSUED.token("alice", life_s=100))))
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    assert 95 < answer.session_lifetime.total_seconds() <= 100
    assert (await client.ask(metadata())).brokers


@pytest.mark.parametrize("wrong", ["expired", "wrong audience", "algorithm none", "unknown kid"])
async def test_a_rejected_client_reads_why_and_confirms_it(client: SaslClient, wrong: str) -> None:
    answer = await client.ask(authenticate(message(ISSUED.refused_tokens("alice")[wrong])))
    assert (answer.error_code, json.loads(answer.auth_bytes)) == (0, {"status": "invalid_token"})
    answer = await client.ask(authenticate(b"\x01"))
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert json.loads(answer.error_message) == {"status": "invalid_token"}
    assert await client.ended()


async def test_after_a_rejection_another_token_is_none(client: SaslClient) -> None:
    await client.ask(authenticate(message("a.b.c")))
    answer = await client.ask(authenticate(message(ISSUED.token("alice"))))
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert await client.ended()


async def test_nobody_acts_as_somebody_else(client: SaslClient) -> None:
    answer = await client.ask(authenticate(message(ISSUED.token("alice"), "n,a=admin,")))
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert await client.ended()


async def test_new_keys_count_without_a_restart(
    token_broker: BrokerProcess, keys_file: Path
) -> None:
    rotated = Issuer(keys=[rsa_key("rotated"), *ISSUED.keys])
    rotated.write_jwks(keys_file)
    token, began_s = rotated.token("alice"), time.monotonic()
    while True:
        async with await SaslClient.connect(token_broker.bootstrap) as client:
            await client.begin("OAUTHBEARER")
            if not (await client.ask(authenticate(message(token)))).auth_bytes:
                break
        assert time.monotonic() - began_s < TAKEN_S
    log = token_broker.log.read_text()
    assert token not in log
    assert token.split(".")[2] not in log
