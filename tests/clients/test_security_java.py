"""The Java clients and the stock tools, and a cluster that asks who is there."""

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

import pytest

from tests.clients.logins import MECHANISMS, SASL_PROTOCOLS, Login
from tests.clients.refused_logins import (
    AUTHENTICATION,
    STRANGER,
    TLS,
    check_refused,
    refused_logins,
)
from tests.clients.secured import Secured, acl, traffic
from tests.clients.secured_java import CALL_S, DONE, SOON, SOURCE, JavaOutcome, SecuredJava
from tests.oracle.tool_runner import tool_runner

SCRAM: Final = ("SASL_SSL", "SCRAM-SHA-256")
GLANCE_S: Final = 0.02
TWICE: Final = "2"
UNSUPPORTED: Final = "UnsupportedSaslMechanismException"
NOT_SENT: Final = frozenset(
    f"token: {wrong}"
    for wrong in ("no expiry", "no subject", "empty subject", "algorithm none", "algorithm None")
)
"""The client itself refuses these."""


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredJava]:
    with tool_runner(SOURCE) as runner:
        yield SecuredJava(runner=runner, home=tmp_path_factory.mktemp("secured-java"))


def _send_and_read(java: SecuredJava, login: Login, topic: str) -> JavaOutcome:
    sent = java.act(login, "send", topic, "a", "b", "c")
    assert str(sent) == DONE, sent
    read = java.act(login, "read", topic, f"group-of-{login.user}", "3")
    assert list(read.lines) == ["a", "b", "c"], read
    return read


def test_every_mechanism_lets_in_who_may_do_exactly_that(
    java: SecuredJava, secured: Secured
) -> None:
    calls: dict[str, Callable[[], JavaOutcome]] = {}
    for protocol, mechanism in (("SSL", ""), *itertools.product(SASL_PROTOCOLS, MECHANISMS)):
        user, topic = secured.new_user(), secured.new_topic()
        secured.allow(*traffic(user, topic, f"group-of-{user}"))
        login = secured.login(user, protocol, mechanism)
        calls[f"{protocol} {mechanism}"] = partial(_send_and_read, java, login, topic)
    assert java.came_to(calls) == dict.fromkeys(calls, DONE)


def test_every_wrong_login_is_refused(java: SecuredJava, secured: Secured, strict: Secured) -> None:
    expected = {
        AUTHENTICATION: frozenset({"SaslAuthenticationException", UNSUPPORTED}),
        TLS: frozenset({"SslAuthenticationException"}),
        STRANGER: frozenset({"DisconnectException", "TimeoutException"}),
    }
    logins = [one for one in refused_logins(secured, strict) if one.name not in NOT_SENT]
    came_to = check_refused(logins, lambda login: str(java.act(login, "connect", **SOON)), expected)
    refused = {name for name, outcome in came_to.items() if outcome == UNSUPPORTED}
    assert refused == {name for name in came_to if name.endswith("is not enabled")}


def test_what_no_acl_allows_is_refused(java: SecuredJava, secured: Secured) -> None:
    topic, nobody, seeing = secured.new_topic(), secured.new_user(), secured.new_user()
    login, seen = secured.login(nobody, *SCRAM), secured.login(seeing, *SCRAM)
    secured.allow(
        *acl(seeing, "DESCRIBE", "TOPIC", topic),
        *acl(seeing, "READ", "GROUP", "seen"),
        *acl(nobody, ["READ", "WRITE"], "TOPIC", topic),
        *acl(seeing, "WRITE", "TRANSACTIONAL_ID", "seen"),
    )
    attempts = {
        "create": (login, ("create", "not-mine")),
        "send": (seen, ("send", topic, "x")),
        "send to what is not there": (seen, ("send", "missing", "x")),
        "read": (seen, ("read", topic, "seen", "1")),
        "read what is not there": (seen, ("read", "missing", "seen", "1")),
        "group": (login, ("read", topic, "not-mine", "1")),
        "transaction": (login, ("transact", topic, "not-mine")),
        "topic of a transaction": (seen, ("transact", topic, "seen")),
    }
    calls = {name: partial(java.act, who, *action) for name, (who, action) in attempts.items()}
    assert java.came_to(calls) == {
        "create": "TopicAuthorizationException",
        "send": "ClusterAuthorizationException",  # it asks for a producer id first (KIP-679)
        "send to what is not there": "TopicAuthorizationException",
        "read": "TopicAuthorizationException",
        "read what is not there": "TopicAuthorizationException",
        "group": "GroupAuthorizationException",
        "transaction": "TransactionalIdAuthorizationException",
        "topic of a transaction": "TopicAuthorizationException",
    }
    assert secured.end_offset(topic) == 0


def test_what_is_taken_away_in_the_middle_ends(java: SecuredJava, secured: Secured) -> None:
    """Rights, a user and a password: each while its client is at work."""
    topics = [secured.new_topic() for _ in range(4)]
    users = [secured.new_user() for _ in topics]
    writing, transacting, deleted, changed = users
    for user, topic in zip(users, topics, strict=True):
        secured.allow(*acl(user, "WRITE", "TOPIC", topic))
    begins = acl(transacting, "WRITE", "TRANSACTIONAL_ID", transacting)
    secured.allow(*begins)
    with ThreadPoolExecutor() as pool:
        running: list[Future[JavaOutcome]] = []
        for user, topic in zip(users, topics, strict=True):
            login = secured.login(user, *SCRAM)
            action: tuple[str, ...] = ("send-until-refused", topic)
            if user == transacting:
                action = ("transact-until-refused", topic, user)
            # who is out may wait for a connection, and is not to wait for long
            is_out = user in (deleted, changed)
            soon = {"request.timeout.ms": "2500", "delivery.timeout.ms": "5000"} if is_out else {}
            running.append(pool.submit(java.act, login, *action, **soon))
        _wait_for_records(secured, topics)

        secured.revoke(*acl(writing, "WRITE", "TOPIC", topics[0]))
        secured.revoke(*begins)
        secured.delete_user(deleted)
        secured.set_password(changed, "another")
        refused = [str(one.result()) for one in running]
    assert refused[:2] == ["TopicAuthorizationException", "TransactionalIdAuthorizationException"]
    # a record that is on its way just then waits for another connection until its time is over
    assert set(refused[2:]) <= {"SaslAuthenticationException", "TimeoutException"}
    assert str(java.act(secured.login(deleted, *SCRAM), "connect")) == "SaslAuthenticationException"
    login = secured.login(changed, *SCRAM).but(password="another")
    assert str(java.act(login, "send", topics[3], "x")) == DONE


def _wait_for_records(secured: Secured, topics: list[str]) -> None:
    deadline = time.monotonic() + CALL_S
    while not all(secured.end_offset(topic) for topic in topics):
        assert time.monotonic() < deadline, "nothing is written"
        time.sleep(GLANCE_S)


def test_who_authenticates_again_under_load_loses_and_repeats_nothing(
    java: SecuredJava, secured: Secured
) -> None:
    users = {mechanism: secured.new_user() for mechanism in MECHANISMS}
    topics = {mechanism: secured.new_topic() for mechanism in MECHANISMS}
    calls: dict[str, Callable[[], JavaOutcome]] = {}
    for mechanism, user in users.items():
        secured.allow(*traffic(user, topics[mechanism], f"group-of-{user}"))
        login = secured.login(user, "SASL_SSL", mechanism)
        action = ("load", topics[mechanism], f"group-of-{user}", TWICE)
        calls[mechanism] = partial(java.act, login, *action)
    with ThreadPoolExecutor() as pool:
        outcomes = dict(zip(calls, pool.map(lambda call: call(), calls.values()), strict=True))
    assert {mechanism: str(outcome) for mechanism, outcome in outcomes.items()} == dict.fromkeys(
        calls, DONE
    )
    sent = {mechanism: int(outcome.lines[-1]) for mechanism, outcome in outcomes.items()}
    assert {name: secured.end_offset(topic) for name, topic in topics.items()} == sent


def test_the_tools_work_for_who_may_use_them(java: SecuredJava, secured: Secured) -> None:
    admin = secured.login("admin", *SCRAM)
    topic, user, password = f"tools-{secured.new_user()}", "toolmaker", "hammer"
    principal = ("--add", "--allow-principal", f"User:{user}")
    named = ("--topic", topic)

    # When the administrator makes a topic, a user and what it needs
    steps = [
        ("kafka-topics", "--create", *named, "--partitions", "1"),
        (
            *("kafka-configs", "--alter", "--entity-type", "users", "--entity-name", user),
            *("--add-config", f"SCRAM-SHA-256=[password={password}]"),
        ),
        ("kafka-acls", *principal, "--producer", *named),
        ("kafka-acls", *principal, "--consumer", *named, "--group", "tools"),
    ]
    for tool, *arguments in steps:
        ran = java.tool(tool, admin, *arguments)
        assert ran.code == 0, ran
    listed = java.tool("kafka-acls", admin, "--list", *named).stdout
    rule = f"(principal=User:{user}, host=*, operation=WRITE, permissionType=ALLOW)"
    assert rule in listed, listed

    # Then that user's console producer and consumer work
    login = secured.login(user, *SCRAM).but(password=password)
    sent = java.tool("kafka-console-producer", login, *named, stdin="one\ntwo\n")
    assert (sent.code, sent.stderr) == (0, ""), sent
    reading = ("--group", "tools", "--from-beginning", "--max-messages", "2")
    read = java.tool("kafka-console-consumer", login, *named, *reading)
    assert read.stdout.split() == ["one", "two"], read

    # And its other tools are told what it may not do
    refused = {
        "ClusterAuthorizationException": java.tool("kafka-acls", login, "--list"),
        "TopicAuthorizationException": java.tool("kafka-topics", login, "--delete", *named),
        "GroupAuthorizationException": java.tool(
            "kafka-console-consumer", login, *named, "--group", "another"
        ),
        "SaslAuthenticationException": java.tool(
            "kafka-topics", login.but(password="wrong"), "--list"
        ),
        "SslAuthenticationException": java.tool(
            "kafka-topics",
            login.but(bootstrap=login.bootstrap.replace("localhost", "127.0.0.1")),
            "--list",
        ),
    }
    said = {name: ran.stdout + ran.stderr for name, ran in refused.items()}
    assert {name: text for name, text in said.items() if name not in text} == {}
    assert topic in java.tool("kafka-topics", login, "--list").stdout.split()
    java.tool("kafka-acls", admin, "--remove", "--force", *named)
    assert topic not in java.tool("kafka-topics", login, "--list").stdout.split()
