"""Commands against a cluster that asks who comes: over TLS, with each mechanism of SASL."""

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.sasl_scram import ScramServer
from protocol.scram import ScramCredential, ScramMechanism
from streamctl.errors import Failure
from streamctl.oauth_token import fetch_token
from streamctl.output import print_failure
from streamctl.sasl import conversation
from tests.streamctl.conftest import FINISH_S, lift_login_limits
from tests.streamctl.forks import Ended
from tests.support.broker import BrokerProcess
from tests.support.certificates import make_authority
from tests.support.sasl import (
    ADMIN,
    MECHANISMS,
    PASSWORD,
    SaslClient,
    Scram,
    authenticate,
    running_sasl_broker,
)
from tests.support.token_server import TokenServer, running_token_server
from tests.support.tokens import AUDIENCE, ISSUER, Issuer, ec_key

RunHere = Callable[..., Ended]
MANY_ITERATIONS = 10_000_000
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A cluster that lets nobody in unasked, and who hands out tokens for it."""

    broker: BrokerProcess
    home: Path
    provider: TokenServer

    def login(self, mechanism: str, password: str = PASSWORD, user: str = ADMIN) -> list[str]:
        """Return the options of a client with that mechanism."""
        properties = {
            "bootstrap.servers": self.broker.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.home / "ca.pem"),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
        if mechanism == "OAUTHBEARER":
            properties |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": self.provider.token_url,
                "sasl.oauthbearer.client.id": ADMIN,
                "sasl.oauthbearer.client.secret": password,
                "https.ca.location": str(self.home / "ca.pem"),
            }
        file = self.home / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return ["--config", str(file)]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    home = tmp_path_factory.mktemp("closed")
    authority, issuer = make_authority(), Issuer(keys=[ec_key()])
    authority.write_truststore(home / "ca.pem")
    certificate = authority.issue("CN=localhost")
    configs = {
        "ssl.keystore.location": str(certificate.write_keystore(home / "keystore.pem")),
        "sasl.oauthbearer.jwks.endpoint.url": issuer.write_jwks(home / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    mechanisms, clients = (*MECHANISMS, "OAUTHBEARER"), {ADMIN: PASSWORD}
    with (
        running_token_server(
            issuer, clients=clients, certificate=certificate, directory=home
        ) as provider,
        running_sasl_broker(
            home / "data", protocol="SASL_SSL", mechanisms=mechanisms, configs=configs
        ) as broker,
    ):
        yield Closed(broker=broker, home=home, provider=provider)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
def test_every_mechanism_lets_in(closed: Closed, run_here: RunHere, mechanism: str) -> None:
    # One command of librdkafka, and two that speak the protocol themselves
    login, topic = closed.login(mechanism), f"of-{mechanism}"
    assert run_here("topic", "create", "--name", topic, "--partitions", "1", *login).exit_code == 0
    shown = run_here("config", "describe", "topic", topic, "--all", "--format", "json", *login)
    assert "retention.ms" in shown.text
    quotas = run_here("quota", "list", "--format", "json", *login)
    assert json.loads(quotas.text) == []


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
@pytest.mark.parametrize("command", [("topic", "list"), ("quota", "list")])
def test_a_wrong_secret_is_told_at_once(
    closed: Closed,
    run_here: RunHere,
    monkeypatch: pytest.MonkeyPatch,
    mechanism: str,
    command: tuple[str, ...],
) -> None:
    lift_login_limits(monkeypatch)
    began_s = time.monotonic()
    ended = run_here(*command, *closed.login(mechanism, "wrong-password"))
    assert ended.exit_code == 1
    assert time.monotonic() - began_s < FINISH_S / 2
    lines = [line for line in ended.err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "wrong-password" not in ended.err


def test_a_password_counts_as_it_was_typed(closed: Closed, run_here: RunHere) -> None:
    # Given a user whose name and password could be written in other ways (RFC 4013), which neither
    # Kafka's clients nor brokers do
    user, password = "Zo\u0065\u0308, Ⅸ=9", "pa\u00adss\u00a0wo\u0308rd Ⅸ"
    file = closed.home / "password"
    file.write_text(password)
    made = run_here(
        *("user", "set-password", user, "--password-file", str(file)), *closed.login("PLAIN")
    )
    assert made.exit_code == 0, made.err

    # When it logs in, by librdkafka and by the command's own client, then it gets in
    for mechanism in MECHANISMS:
        login = closed.login(mechanism, password, user)
        for command in (("topic", "list"), ("quota", "list")):
            ended = run_here(*command, *login)
            assert ended.exit_code == 0, ended.err


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_salt_is_text(run_here: RunHere, tmp_path: Path, mechanism: str) -> None:
    # Given a user whose password was set from the command line
    (tmp_path / "password").write_text(PASSWORD)
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": ADMIN,
        "sasl.password": PASSWORD,
    }
    with running_sasl_broker(tmp_path / "data") as broker:
        made = run_here(
            *("user", "set-password", "alice", "--password-file", str(tmp_path / "password")),
            *("--bootstrap", broker.bootstrap),
            *(word for pair in properties.items() for word in ("-X", "=".join(pair))),
        )
        assert made.exit_code == 0, made.err

        # When it logs in, then it is told a salt as those that Java's tools make: digits and small
        # letters, as kafka-ts reads no others
        async with await SaslClient.connect(broker.bootstrap) as client:
            await client.begin(mechanism)
            answer = await client.ask(authenticate(Scram(mechanism, "alice", PASSWORD).first()))
    told = dict(part.split(b"=", 1) for part in answer.auth_bytes.split(b","))
    assert re.fullmatch(rb"[0-9a-z]{32}", base64.b64decode(told[b"s"]))


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "does not speak SASL GSSAPI"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.username"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.method=oidc"),
    ],
)
def test_what_is_missing_is_told(
    closed: Closed, run_here: RunHere, properties: dict[str, str], said: str
) -> None:
    options = [f"-X{name}={value}" for name, value in properties.items()]
    listener = ["-Xsecurity.protocol=SASL_SSL", f"-Xssl.ca.location={closed.home / 'ca.pem'}"]
    ended = run_here("quota", "list", "--bootstrap", closed.broker.bootstrap, *listener, *options)
    assert ended.exit_code == 2
    assert said in ended.err


@given(user=texts, password=texts, mechanism=st.sampled_from(ScramMechanism))
def test_client_and_server_know_each_other(
    user: str, password: str, mechanism: ScramMechanism
) -> None:
    # Given a server that knows the user's password
    server = ScramServer(mechanism, nonce="server")
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), b"salt", 4096)
    credential = ScramCredential.from_salted_password(
        mechanism, salt=b"salt", salted_password=salted, iterations=4096
    )
    properties = {
        "sasl.mechanism": mechanism.sasl_name,
        "sasl.username": user,
        "sasl.password": password,
    }
    name, messages = conversation(properties)
    assert name == mechanism.sasl_name
    assert server.start(next(messages)) == user

    # When it has let the client in, then the client believes it, and nobody else
    proof = server.finish(messages.send(server.challenge(credential)))
    with pytest.raises(StopIteration):
        messages.send(proof)
    _, messages = conversation(properties)
    impostor = ScramServer(mechanism, nonce="impostor")
    impostor.start(next(messages))
    messages.send(impostor.challenge(credential))
    with pytest.raises(Failure, match="not the broker"):
        messages.send(proof)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"r=other,s=YQ==,i=4096",
        f"s=YQ==,i={MANY_ITERATIONS}".encode(),
        b"s=YQ==,i=1",  # the proof would be as good as the password itself
        b"s=YQ==,i=" + b"9" * 5000,
        "s=YQ==,i=४०९६".encode(),
    ],
)
def test_a_challenge_without_sense_is_not_answered(challenge: bytes) -> None:
    properties = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "a", "sasl.password": "b"}
    _, messages = conversation(properties)
    nonce = next(messages).partition(b",r=")[2]
    prefix = b"r=" + nonce + b"x," if b"r=" not in challenge and challenge else b""
    with pytest.raises(Failure):
        messages.send(prefix + challenge)


def test_a_secret_does_not_follow_a_redirect() -> None:
    # Given a place for tokens that sends its clients on to another one
    asked: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        prefix = "sasl.oauthbearer."
        properties = {
            f"{prefix}method": "oidc",
            f"{prefix}token.endpoint.url": f"http://127.0.0.1:{server.server_port}/token",
            f"{prefix}client.id": "alice",
            f"{prefix}client.secret": "very-secret",
        }

        # When a token is asked for, then that is a failure, and nobody else hears the secret
        with pytest.raises(Failure, match="302") as failed:
            fetch_token(properties)
        server.shutdown()
        thread.join()
    assert asked == ["/token"]
    assert "very-secret" not in str(failed.value)


def test_what_a_server_says_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_failure(Failure("it says: \x1b[2J[bold]no\r\x9b0m", fix="\x1b]0;x\x07"))
    assert capsys.readouterr().err.splitlines() == [
        r"error: it says: \x1b[2J[bold]no\r\x9b0m",
        r"  fix: \x1b]0;x\x07",
    ]
