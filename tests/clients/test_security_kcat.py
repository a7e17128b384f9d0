"""kcat and a cluster that asks who is there.

Debian's librdkafka 2.0 sends a wrong nonce by SCRAM, which Apache Kafka 4 refuses as well (RFC 5802
section 5.1, CVE-2024-56128), knows no OIDC, and does not authenticate again. So kcat is mostly lent
the one of confluent-kafka.
"""

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Final

import confluent_kafka
import pytest

from tests.clients.logins import MECHANISMS, SASL_PROTOCOLS, Login
from tests.clients.processes import program
from tests.clients.refused_logins import (
    AUTHENTICATION,
    STRANGER,
    TLS,
    RefusedLogin,
    check_refused,
    refused_logins,
)
from tests.clients.secured import USERS, Secured, acl, password_of, traffic
from tests.support.token_server import TokenServer, running_token_server

(NEWER_LIBRARY,) = (
    Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka-*")
)
CALL_S: Final = 120.0
DONE: Final = "done"
RECORDS: Final = "a\nb\nc\n"
CONCURRENT: Final = 12
LENT: Final = {"LD_PRELOAD": str(NEWER_LIBRARY)}
PATIENCE_S: Final = "10"
TOKEN: Final = "token"
SAID: Final = (
    *("invalid_token", "Failed to retrieve OIDC token"),
    *("SASL authentication error", "Unsupported SASL mechanism"),
    *("SSL handshake failed", "SSL alert"),
)
DISCONNECTED: Final = "Disconnected"
"""It may say so before any of these; of a stranger it says nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run of kcat."""

    code: int
    stdout: str
    stderr: str


def _kcat(
    login: Login,
    *arguments: str,
    more: Mapping[str, str] | None = None,
    stdin: str = "",
    own_library: bool = False,
) -> Ended:
    """Run it.

    Args:
        more: properties besides those of the login.
        own_library: with the librdkafka that it comes with.
    """
    ended = subprocess.run(
        _command(login, *arguments, more=more),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=CALL_S,
        check=False,
        env={**os.environ, **({} if own_library else LENT)},
    )
    return Ended(code=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)


def _command(login: Login, *arguments: str, more: Mapping[str, str] | None = None) -> list[str]:
    properties = {**login.librdkafka(), **(more or {})}
    given = [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]
    return [program("kcat", debian_package="kcat"), *arguments, *given]


def _refusal(login: Login, more: Mapping[str, str]) -> str:
    """Return what it says of a login that is refused; all that it has said if it is let in.

    It would try again for as long as it may; so it is ended once it has said why.
    """
    command = _command(login, "-L", "-m", PATIENCE_S, more={**more, "log_level": "6"})
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **LENT},
    ) as running:
        assert running.stderr is not None
        lines: list[str] = []
        limit = Timer(CALL_S, running.kill)
        limit.start()
        try:
            for line in running.stderr:
                lines.append(line)
                if said := next((word for word in SAID if word in line), ""):
                    running.kill()
                    return said
            listed, _ = running.communicate(timeout=CALL_S)
        finally:
            limit.cancel()
    if running.returncode and not listed and any(DISCONNECTED in line for line in lines):
        return DISCONNECTED
    return f"{running.returncode}: {listed}{''.join(lines)}"


def _send_and_read(
    login: Login, topic: str, group: str, more: Mapping[str, str] | None = None
) -> str:
    sent = _kcat(login, "-P", "-t", topic, stdin=RECORDS, more=more)
    if sent.code:
        return sent.stderr
    read = _read(login, topic, group, more)
    return DONE if (read.code, read.stdout) == (0, RECORDS) else read.stderr


def _read(login: Login, topic: str, group: str, more: Mapping[str, str] | None = None) -> Ended:
    from_the_start = {"auto.offset.reset": "earliest", **(more or {})}
    return _kcat(login, "-G", group, "-c", "3", topic, more=from_the_start)


def _came_to(calls: Mapping[str, Callable[[], str]]) -> dict[str, str]:
    """Make all calls at the same time."""
    with ThreadPoolExecutor(CONCURRENT) as pool:
        return dict(zip(calls, pool.map(lambda call: call(), calls.values()), strict=True))


@pytest.fixture(scope="module")
def provider(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    """Gives tokens to each user by its password; its certificate is of the brokers' authority."""
    clients = {f"user-{number}": password_of(f"user-{number}") for number in range(USERS)}
    with running_token_server(
        secured.issuer,
        clients=clients,
        certificate=secured.authority.issue(),
        directory=tmp_path_factory.mktemp("provider"),
    ) as running:
        yield running


def _oidc(login: Login, provider: TokenServer) -> dict[str, str]:
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": login.user,
        "sasl.oauthbearer.client.secret": login.password,
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.scope": "kafka",
        "https.ca.location": str(login.trust),
    }


def test_every_mechanism_lets_in_who_may_do_exactly_that(
    secured: Secured, provider: TokenServer
) -> None:
    calls: dict[str, Callable[[], str]] = {}
    for protocol, mechanism in (("SSL", ""), *itertools.product(SASL_PROTOCOLS, MECHANISMS)):
        user, topic = secured.new_user(), secured.new_topic()
        secured.allow(*traffic(user, topic, f"group-of-{user}"))
        login = secured.login(user, protocol, mechanism)
        calls[f"{protocol} {mechanism}"] = partial(
            _send_and_read,
            login,
            topic,
            f"group-of-{user}",
            _oidc(login, provider) if mechanism == "OAUTHBEARER" else None,
        )
    assert _came_to(calls) == dict.fromkeys(calls, DONE)


def test_the_library_that_it_comes_with_is_let_in_as_well(strict: Secured) -> None:
    """By what it can do: certificates, and PLAIN as long as nobody asks again."""
    user, topic = strict.new_user(), strict.new_topic()
    strict.allow(*acl(user, ["WRITE", "READ"], "TOPIC", topic))
    for login in (strict.login(user, "SSL"), strict.login(user, "SASL_SSL", "PLAIN")):
        sent = _kcat(login, "-P", "-t", topic, stdin=RECORDS, own_library=True)
        assert sent.code == 0, sent
        read = _kcat(login, "-C", "-t", topic, "-c", "3", own_library=True)
        assert (read.code, read.stdout) == (0, RECORDS), read


def test_every_wrong_login_is_refused(
    secured: Secured, strict: Secured, provider: TokenServer
) -> None:
    """All but most of the tokens: kcat sends what its provider gives it, or what nobody signed."""
    logins = [
        one
        for one in refused_logins(secured, strict)
        if one.login.mechanism != "OAUTHBEARER" and not one.name.startswith("SASL_PLAINTEXT")
    ]
    bearer = secured.login("user-0", "SASL_SSL", "OAUTHBEARER")
    more: dict[Login, Mapping[str, str]] = {}
    for name, properties in {
        "unsigned token": {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=admin scope=kafka",
        },
        "wrong client secret": _oidc(bearer.but(password="wrong"), provider),
        "wrong authority of the provider": _oidc(
            bearer.but(trust=secured.home / "elsewhere.pem"), provider
        ),
    }.items():
        login = bearer.but(token=name)  # kcat is not given it
        more[login] = properties
        logins.append(RefusedLogin(name=name, kind=TOKEN, login=login))

    def attempt(login: Login) -> str:
        return _refusal(login, more.get(login, {}))

    expected = {
        AUTHENTICATION: frozenset({"SASL authentication error", "Unsupported SASL mechanism"}),
        TLS: frozenset({"SSL handshake failed", "SSL alert"}),
        STRANGER: frozenset({"SSL handshake failed", DISCONNECTED}),
        TOKEN: frozenset({"invalid_token", "Failed to retrieve OIDC token"}),
    }
    check_refused(logins, attempt, expected)


def test_what_no_acl_allows_is_refused(secured: Secured) -> None:
    topic, nobody, seeing = secured.new_topic(), secured.new_user(), secured.new_user()
    secured.allow(
        *acl(seeing, "DESCRIBE", "TOPIC", topic),
        *acl(seeing, "READ", "GROUP", "seen"),
        *acl(nobody, "READ", "TOPIC", topic),
    )
    login = secured.login(nobody, "SASL_SSL", "SCRAM-SHA-512")
    seen = secured.login(seeing, "SSL")
    calls: dict[str, Callable[[], Ended]] = {
        "Topic authorization failed: write": partial(_kcat, seen, "-P", "-t", topic, stdin="x"),
        "Topic authorization failed: read": partial(_kcat, seen, "-C", "-t", topic, "-e"),
        "Group authorization failed": partial(_read, login, topic, "not-mine"),
    }
    with ThreadPoolExecutor() as pool:
        ended = dict(zip(calls, pool.map(lambda call: call(), calls.values()), strict=True))
    for name, one in ended.items():
        assert one.code != 0, one
        assert name.partition(":")[0] in one.stderr, one

    # And topics that it may not know of are not listed
    assert topic in _kcat(seen, "-L").stdout
    other = secured.new_topic()
    assert other not in _kcat(seen, "-L").stdout
