"""The tokens of the tests: PyJWT judges them by what their issuer publishes."""

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.support.certificates import make_authority
from tests.support.token_server import TokenServer, running_token_server
from tests.support.tokens import AUDIENCE, ISSUER, Issuer, SigningKey, ec_key, rsa_key

REQUIRED = ["exp", "iss", "aud", "sub"]


@pytest.fixture(scope="module", params=[rsa_key, ec_key])
def issuer(request: pytest.FixtureRequest) -> Issuer:
    return Issuer(keys=[request.param()])


def _verified(token: str, jwks: dict[str, Any]) -> dict[str, Any]:
    """Return the claims of a token that is good.

    Raises:
        jwt.PyJWTError, KeyError: it is not.
    """
    keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(jwks).keys}
    key = keys[jwt.get_unverified_header(token)["kid"]]
    options: Any = {"require": REQUIRED}
    return jwt.decode(
        token,
        key,
        algorithms=["RS256", "ES256"],
        audience=AUDIENCE,
        issuer=ISSUER,
        options=options,
    )


def test_a_good_token_is_good(issuer: Issuer, tmp_path: Path) -> None:
    published = json.loads(issuer.write_jwks(tmp_path / "jwks.json").read_bytes())
    assert _verified(issuer.token("alice"), published)["sub"] == "alice"


def test_every_wrong_token_is_wrong(issuer: Issuer) -> None:
    for wrong, token in issuer.refused_tokens("alice").items():
        if wrong == "empty subject":
            assert _verified(token, issuer.jwks())["sub"] == ""
            continue
        with pytest.raises((jwt.PyJWTError, KeyError)):
            _verified(token, issuer.jwks())


def test_rotated_keys_are_all_shown(issuer: Issuer) -> None:
    old: SigningKey = issuer.keys[0]
    both = Issuer(keys=[ec_key("new"), old])
    assert jwt.get_unverified_header(both.token("alice"))["kid"] == "new"
    assert _verified(issuer.token("alice"), both.jwks())["sub"] == "alice"


def _asked(
    server: TokenServer, form: dict[str, str], context: ssl.SSLContext | None
) -> dict[str, Any]:
    data = urllib.parse.urlencode({"grant_type": "client_credentials", **form}).encode()
    with urllib.request.urlopen(server.token_url, data, timeout=60, context=context) as reply:
        answer: dict[str, Any] = json.load(reply)
        return answer


def test_a_provider_hands_out_tokens_over_https(issuer: Issuer, tmp_path: Path) -> None:
    authority = make_authority()
    trust = ssl.create_default_context(
        cafile=str(authority.write_truststore(tmp_path / "trust.pem"))
    )
    clients = {"alice": "wonderland"}
    with running_token_server(
        issuer, clients=clients, certificate=authority.issue(), directory=tmp_path
    ) as server:
        # When somebody who does not trust it hangs up, and then a client asks
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            _asked(server, {}, ssl.create_default_context())
        answer = _asked(server, {"client_id": "alice", "client_secret": "wonderland"}, trust)

        # Then its token is good by the keys that are shown
        with urllib.request.urlopen(server.jwks_url, timeout=60, context=trust) as reply:
            assert _verified(answer["access_token"], json.load(reply))["sub"] == "alice"
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            _asked(server, {"client_id": "alice", "client_secret": "wrong"}, trust)
        refused.value.close()
        server.status = 503
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            _asked(server, {}, trust)
        refused.value.close()
        assert server.requests == {"/token": 3, "/jwks": 1}
