"""Starts a broker of this project, or Apache Kafka 4.3.1, with all that keeps strangers out.

Which of them is asked by the same tests is what makes one the judge of the other:
STREAMHOUSE_TEST_SECURED=kafka asks Apache Kafka.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.logins import MECHANISMS, SASL_PROTOCOLS
from tests.clients.secured import ADMIN, ADMIN_PASSWORD, USERS, Secured, password_of
from tests.oracle.apache_kafka import running_kafka
from tests.support.broker import start_broker
from tests.support.certificates import Authority, make_authority
from tests.support.ports import free_port
from tests.support.tokens import Issuer, ec_key

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
REAUTH_MS: Final = 1_500
MAPPING: Final = r"RULE:^CN=(.*?),OU=Clients.*$/$1/,RULE:^CN=(.*?),OU=Loud.*$/$1/L,DEFAULT"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_MODULES: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strictness:
    """In what two clusters of the tests differ.

    Attributes:
        mechanisms: of SASL, those that are enabled.
        client_auth: ssl.client.auth.
        reauth_ms: connections.max.reauth.ms; 0 for as long as the connection.
    """

    mechanisms: Sequence[str] = MECHANISMS
    client_auth: str = "requested"
    reauth_ms: int = REAUTH_MS


STRICT: Final = Strictness(
    mechanisms=("PLAIN", "SCRAM-SHA-512"), client_auth="required", reauth_ms=0
)
"""Without re-authentication: who was let in once stays."""


@contextmanager
def running_secured(home: Path, strictness: Strictness) -> Iterator[Secured]:
    """Run a cluster of one broker for the length of a block."""
    authority, issuer = make_authority(), Issuer(keys=[ec_key()])
    ports = {protocol: free_port() for protocol in PROTOCOLS}
    common = {
        "authorizer.class.name": _AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "auto.create.topics.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
        "connections.max.reauth.ms": str(strictness.reauth_ms),
        "sasl.enabled.mechanisms": ",".join(strictness.mechanisms),
        "ssl.client.auth": strictness.client_auth,
        "ssl.keystore.location": str(_keystore(authority, home)),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(authority.write_truststore(home / "trust.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.principal.mapping.rules": MAPPING,
        "sasl.oauthbearer.jwks.endpoint.url": issuer.write_jwks(home / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.audience": issuer.audience,
        "sasl.oauthbearer.expected.issuer": issuer.issuer,
    }
    with ExitStack() as stack:
        foreign = os.environ.get("STREAMHOUSE_TEST_SECURED") == "kafka"
        run = _kafka if foreign else _streamhouse
        log = stack.enter_context(run(home, ports, common))
        yield Secured(
            addresses={protocol: f"localhost:{port}" for protocol, port in ports.items()},
            home=home,
            authority=authority,
            trust=home / "trust.pem",
            issuer=issuer,
            log=log,
        )


def _keystore(authority: Authority, home: Path) -> Path:
    """Return the broker's: not for 127.0.0.1, where it is, so that there is a wrong name."""
    return authority.issue(names=["localhost"]).write_keystore(home / "broker.pem")


@contextmanager
def _streamhouse(home: Path, ports: dict[str, int], configs: dict[str, str]) -> Iterator[Path]:
    first, *others = (f"{protocol}://127.0.0.1:{port}" for protocol, port in ports.items())
    options = [word for address in others for word in ("--listen", address)]
    options += [
        word
        for protocol, port in ports.items()
        for word in ("--advertise", f"{protocol}://localhost:{port}")
    ]
    options += [word for name, value in configs.items() for word in ("--set", f"{name}={value}")]
    secrets = {
        "STREAMHOUSE_SECRETS__BOOTSTRAP_USER": ADMIN,
        "STREAMHOUSE_SECRETS__BOOTSTRAP_PASSWORD": ADMIN_PASSWORD,
    }
    broker = start_broker(
        home / "data", *options, listen=first, environment={**os.environ, **secrets}
    )
    try:
        yield broker.log
    finally:
        broker.stop()


@contextmanager
def _kafka(home: Path, ports: dict[str, int], configs: dict[str, str]) -> Iterator[Path]:
    """Brokers and controllers know each other by PLAIN; so nobody is ANONYMOUS but clients."""
    controller_port = free_port()
    listeners = ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in ports.items())
    advertised = ",".join(f"{protocol}://localhost:{port}" for protocol, port in ports.items())
    protocols = ",".join(f"{protocol}:{protocol}" for protocol in PROTOCOLS)
    settings = {
        **configs,
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"{advertised},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listener.security.protocol.map": f"CONTROLLER:SASL_PLAINTEXT,{protocols}",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": _plain(),
    }
    for protocol in map(str.lower, SASL_PROTOCOLS):
        here = f"listener.name.{protocol}"
        settings[f"{here}.plain.sasl.jaas.config"] = _plain()
        for scram in ("scram-sha-256", "scram-sha-512"):
            settings[f"{here}.{scram}.sasl.jaas.config"] = (
                f"{_MODULES}.scram.ScramLoginModule required;"
            )
        settings |= {
            f"{here}.oauthbearer.sasl.jaas.config": (
                f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
            ),
            f"{here}.oauthbearer.sasl.server.callback.handler.class": (
                f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
        }
    jwks = configs["sasl.oauthbearer.jwks.endpoint.url"]
    urls = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks}"
    with running_kafka(home, settings, users={ADMIN: ADMIN_PASSWORD}, jvm=(urls,)) as kafka:
        yield kafka.log


def _plain() -> str:
    users = [ADMIN, *(f"user-{number}" for number in range(USERS))]
    known = " ".join(f'user_{user}="{password_of(user)}"' for user in users)
    own = f'username="{ADMIN}" password="{ADMIN_PASSWORD}"'
    return f"{_MODULES}.plain.PlainLoginModule required {own} {known};"
