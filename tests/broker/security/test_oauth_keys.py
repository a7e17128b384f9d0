"""Keys that tokens are checked with: which are taken, and how they stay fresh."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from broker.security.oauth_key_ring import RETRY_S, SEARCH_S
from broker.security.oauth_key_sources import KeysUnavailable, open_key_source
from broker.security.oauth_keys import UnusableKeys, read_keys
from tests.support.certificates import make_authority
from tests.support.token_keys import Clock, Source, ring_of
from tests.support.token_server import JWKS_PATH, running_token_server
from tests.support.tokens import Issuer, ec_key, rsa_key

ISSUED = Issuer(keys=[ec_key(), rsa_key()])


def public(private: Any) -> dict[str, Any]:
    """Return the public key as a JWK."""
    kinds = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm}
    of = [algorithm for kind, algorithm in kinds.items() if isinstance(private, kind)]
    algorithm: Any = of[0] if of else OKPAlgorithm
    jwk: dict[str, Any] = algorithm.to_jwk(private.public_key(), as_dict=True)
    return jwk


def test_only_public_keys_for_signatures_are_kept() -> None:
    # Given a set with keys of every kind
    good = public(ec.generate_private_key(ec.SECP384R1()))
    edwards = public(ed25519.Ed25519PrivateKey.generate())
    weak = public(rsa.generate_private_key(public_exponent=65_537, key_size=1024))
    entries = [
        {**good, "kid": "good"},
        {**edwards, "kid": "edwards"},
        {**good, "kid": "for encryption", "use": "enc"},
        {**good, "kid": "to sign with", "key_ops": ["sign"]},
        {**good, "kid": "symmetric by name", "alg": "HS256"},
        {**good, "kid": "of another curve", "alg": "ES256"},
        {**weak, "kid": "weak"},
        {**public(ec.generate_private_key(ec.SECP256K1())), "kid": "another curve"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "symmetric"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "broken"},
        {"kty": ["RSA"]},
        "no key",
    ]

    # When it is read, then what is left can check a signature, and only with its own algorithm
    keys = read_keys(json.dumps({"keys": entries}).encode())
    assert {one.kid: one.algorithms for one in keys} == {"good": {"ES384"}, "edwards": {"EdDSA"}}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": 7}',
        b'{"keys": []}',
        b"\xff",
        b"[" * 100_000,
        json.dumps({"keys": [{}] * 65}).encode(),
    ],
)
def test_what_is_no_set_of_keys_is_not_taken(text: bytes) -> None:
    with pytest.raises(UnusableKeys):
        read_keys(text)


@given(st.binary(max_size=200))
def test_whatever_a_source_says_is_keys_or_unusable(text: bytes) -> None:
    with pytest.raises(UnusableKeys):
        read_keys(text)


async def test_an_unknown_key_is_looked_for_but_not_for_everyone() -> None:
    # Given a ring whose source has another key since
    clock, source = Clock(), Source(ISSUED)
    ring = await ring_of(source, clock)
    source.text = json.dumps(Issuer(keys=[ec_key("new")]).jwks()).encode()

    # When many ask for it at once, then it is fetched once, and not for a while after that
    assert await ring.find("new", "ES256") == []
    clock.s += SEARCH_S
    found = await asyncio.gather(*(ring.find("new", "ES256") for _ in range(50)))
    assert all(len(one) == 1 for one in found)
    for at in range(50):
        assert await ring.find(f"made up {at}", "ES256") == []
    assert source.reads == 2

    # And the key that is not published any more is none
    assert await ring.find("ec-1", "ES256") == []


async def test_keys_stay_while_nobody_answers() -> None:
    clock, source = Clock(), Source(ISSUED)
    ring = await ring_of(source, clock)
    clock.s += SEARCH_S
    source.text = None
    assert await ring.find("unknown", "ES256") == []
    assert len(await ring.find("ec-1", "ES256")) == 1
    assert source.reads == 2


async def test_keys_are_asked_for_again_before_they_are_old_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given keys that have become old while nobody answers
    monkeypatch.setattr("broker.security.oauth_key_ring.LOOK_S", 0.001)
    clock, source = Clock(), Source(ISSUED)
    ring = await ring_of(source, clock)
    source.text = None
    following = asyncio.create_task(ring.run())
    clock.s += 3600
    await reads(source, 2)

    # When somebody answers a while later, then the key that was withdrawn is none any more
    source.text = json.dumps(Issuer(keys=[ec_key("new")]).jwks()).encode()
    clock.s += RETRY_S
    await reads(source, 3)
    following.cancel()
    assert [len(await ring.find(kid, "ES256")) for kid in ("ec-1", "new")] == [0, 1]


async def reads(source: Source, count: int) -> None:
    """Wait until the source was read so often, and what it said is known."""
    async with asyncio.timeout(5):
        while source.reads < count:
            await asyncio.sleep(0)
    await asyncio.sleep(0.01)


async def test_keys_are_fetched_by_https_from_who_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an endpoint whose authority is named by SSL_CERT_FILE
    authority = make_authority()
    certificate = authority.issue("CN=localhost")
    with running_token_server(ISSUED, certificate=certificate, directory=tmp_path) as server:
        stranger, friend = open_key_source(server.jwks_url), open_key_source(server.jwks_url)
        with pytest.raises(KeysUnavailable):
            await stranger.read()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.write_truststore(tmp_path / "ca.pem")))

        # Then its keys are read, and an error is not taken for keys
        assert len(read_keys(await friend.read())) == len(ISSUED.keys)
        server.status = 503
        with pytest.raises(KeysUnavailable, match="503"):
            await friend.read()
        await friend.close()
        await stranger.close()
        assert server.requests == {JWKS_PATH: 2}


async def test_why_there_are_no_keys_is_told_without_what_may_be_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given endpoints whose addresses have a secret: nobody is there, or there is no page
    authority = make_authority()
    certificate = authority.issue("CN=localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.write_truststore(tmp_path / "ca.pem")))
    with running_token_server(ISSUED, certificate=certificate, directory=tmp_path) as server:
        for url in ("https://127.0.0.1:1/keys", f"{server.jwks_url}/not-there"):
            source = open_key_source(f"{url}?code=hunter2")

            # When they are asked for keys
            with pytest.raises(KeysUnavailable) as unavailable:
                await source.read()
            await source.close()

            # Then the reason names the place, and not the secret
            assert url in str(unavailable.value)
            assert "hunter2" not in str(unavailable.value)


async def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = ISSUED.write_jwks(tmp_path / "jwks.json")
    source = open_key_source(file.as_uri())
    assert await source.changed()
    await source.read()
    assert not await source.changed()
    Issuer(keys=[ec_key("new")]).write_jwks(file)
    assert await source.changed()
    assert read_keys(await source.read())[0].kid == "new"
    file.write_bytes(b"x" * 300_000)
    with pytest.raises(KeysUnavailable):
        await source.read()
