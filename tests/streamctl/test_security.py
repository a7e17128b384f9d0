"""Commands of a user who may not do all, or does not get that far: what is wrong is said."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding  # type: ignore[attr-defined]  # not marked as re-exports

from tests.clients.logins import Login
from tests.clients.secured import Secured, acl, traffic
from tests.clients.secured_brokers import Strictness, running_secured
from tests.streamctl.conftest import FINISH_S, Streamctl, lift_login_limits
from tests.streamctl.forks import Ended
from tests.support.certificates import make_authority

RunHere = Callable[..., Ended]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with running_secured(tmp_path_factory.mktemp("secured"), Strictness()) as running:
        yield running


@pytest.fixture(scope="module")
def login(secured: Secured) -> Login:
    return secured.login(secured.new_user(), "SASL_SSL", "SCRAM-SHA-512")


@pytest.fixture
def admin(secured: Secured) -> list[str]:
    return _options(secured.admin_login(), secured.home / "admin.properties")


def _options(login: Login, file: Path, **changes: str) -> list[str]:
    """Write a login into a file, as people do who keep passwords off the command line."""
    properties = {**login.librdkafka(), **changes}
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return ["--config", str(file)]


@pytest.mark.parametrize("command", [("topic", "list"), ("quota", "list")])
@pytest.mark.parametrize("wrong", ["authority", "host", "file"])
def test_a_certificate_that_is_not_trusted_is_named(
    login: Login,
    run_here: RunHere,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: tuple[str, ...],
    wrong: str,
) -> None:
    lift_login_limits(monkeypatch)
    other = make_authority().write_truststore(tmp_path / "other.pem")
    logins = {
        "authority": login.but(trust=other),
        "host": login.but(bootstrap=login.bootstrap.replace("localhost", "127.0.0.1")),
        "file": login.but(trust=tmp_path / "missing.pem"),
    }
    began_s = time.monotonic()
    ended = run_here(*command, *_options(logins[wrong], tmp_path / "client.properties"))
    assert ended.exit_code == (2 if wrong == "file" else 1)
    assert time.monotonic() - began_s < FINISH_S / 2
    said = "there is no file" if wrong == "file" else "has a certificate that is not trusted"
    assert said in ended.err
    assert "ssl.ca.location" in ended.err


def test_a_listener_for_others_is_guessed(secured: Secured, run_here: RunHere) -> None:
    ended = run_here("quota", "list", "--bootstrap", secured.addresses["SASL_SSL"])
    assert ended.exit_code == 1
    assert "does it want TLS or a login?" in ended.err


def test_what_no_acl_allows_is_said_with_what_would(
    secured: Secured, login: Login, run_here: RunHere, tmp_path: Path
) -> None:
    topic = secured.new_topic()
    options = _options(login, tmp_path / "client.properties")
    (tmp_path / "password").write_text("secret\n")
    password = ("--password-file", str(tmp_path / "password"))
    refused = {
        (
            "topic",
            "describe",
            topic,
        ): f"streamctl acl add --user USER --operation describe --topic {topic}",
        ("topic", "create", "--name", "new", "--partitions", "1"): "--operation create --topic new",
        ("topic", "delete", topic, "--yes"): f"--operation delete --topic {topic}",
        ("topic", "alter", topic, "--partitions", "9"): f"--operation alter --topic {topic}",
        ("produce", "--topic", topic, "--message", "m"): f"--operation write --topic {topic}",
        ("consume", "--topic", topic, "--limit", "1"): f"--operation read --topic {topic}",
        ("group", "describe", "any one"): "--operation describe --group 'any one'",
        ("acl", "list"): "CLUSTER_AUTHORIZATION_FAILED",
        ("acl", "delete", "--user", "any", "--yes"): "CLUSTER_AUTHORIZATION_FAILED",
        ("acl", "add", "--user", "any", "--operation", "all", "--cluster"): (
            "CLUSTER_AUTHORIZATION_FAILED"
        ),
        ("user", "list"): "CLUSTER_AUTHORIZATION_FAILED",
        ("user", "set-password", "any", *password): "CLUSTER_AUTHORIZATION_FAILED",
        ("user", "delete", "any", "--yes"): "CLUSTER_AUTHORIZATION_FAILED",
        ("quota", "list"): "CLUSTER_AUTHORIZATION_FAILED",
        ("config", "describe", "broker", "0"): "CLUSTER_AUTHORIZATION_FAILED",
    }
    ended = {command: run_here(*command, *options) for command in refused}
    surprises = {
        command: one
        for command, one in ended.items()
        if one.exit_code != 1 or refused[command] not in one.err or "fix: " not in one.err
    }
    assert not surprises


@pytest.mark.parametrize(
    "words",
    [
        "topic create new-TOPIC",
        "topic describe TOPIC",
        "topic alter TOPIC --partitions 9",
        "topic alter TOPIC --retention 1d",
        "topic delete TOPIC --yes",
        "produce --topic TOPIC --message m",
        "consume --topic TOPIC --from-beginning --exit-at-end",
        "consume --topic TOPIC --from-beginning --exit-at-end --group of-TOPIC",
        "group reset of-TOPIC --topic TOPIC --to-earliest --execute",
        "config describe topic TOPIC",
        "config alter topic TOPIC --set retention.ms=1000000",
        "config alter group of-TOPIC --set consumer.session.timeout.ms=50000",
        "config describe broker 0",
        "config list",
        "user list",
        "acl list",
        "acl add --user nobody --operation read --topic TOPIC",
        "quota list",
        "quota set --user nobody --produce-rate 1MB",
    ],
)
def test_who_follows_the_advice_gets_there(
    secured: Secured, run_here: RunHere, admin: list[str], tmp_path: Path, words: str
) -> None:
    # Given somebody who may do nothing
    topic, user = secured.new_topic(), secured.new_user()
    login = secured.login(user, "SASL_SSL", "SCRAM-SHA-512")
    options = _options(login, tmp_path / "client.properties")
    command = words.replace("TOPIC", topic).split()

    # When an administrator does what each refusal says
    refusals = 0
    while (ended := run_here(*command, *options)).exit_code:
        _, advised, line = ended.err.partition("an administrator can allow it: streamctl ")
        assert advised, ended
        allowed = run_here(*(user if word == "USER" else word for word in line.split()), *admin)
        assert allowed.exit_code == 0, allowed
        refusals += 1
        assert refusals <= 4, ended

    # Then it is done, and was not before
    assert refusals


@pytest.mark.parametrize("user", ["alice", "team:alice"])
def test_an_administrator_sets_up_a_user(
    secured: Secured, run_here: RunHere, admin: list[str], tmp_path: Path, user: str
) -> None:
    # Given a user, a topic and the ACLs for it, all made by commands
    (tmp_path / "password").write_text("wonderland\n")
    topic, group = f"of-{tmp_path.name}", f"group-of-{tmp_path.name}"
    operations = ("--operation", "read", "--operation", "write")
    for command in (
        ("user", "set-password", user, "--password-file", str(tmp_path / "password")),
        ("topic", "create", "--name", topic, "--partitions", "1"),
        ("acl", "add", "--user", user, *operations, "--topic", topic),
        ("acl", "add", "--user", user, "--operation", "read", "--group", group),
    ):
        ended = run_here(*command, *admin)
        assert ended.exit_code == 0, ended

    # Then the user can do that, and no more
    login = secured.login(user, "SASL_SSL", "SCRAM-SHA-256").but(password="wonderland")
    options = _options(login, tmp_path / "client.properties")
    Streamctl(bootstrap="").well("produce", "--topic", topic, *options, stdin=b"one\n")
    reading = ("consume", "--topic", topic, "--from-beginning", "--limit", "1")
    read = run_here(*reading, "--group", group, *options)
    assert read.exit_code == 0, read
    assert "one" in read.text
    refused = run_here(*reading, "--group", "another", *options)
    assert "GROUP_AUTHORIZATION_FAILED" in refused.err

    # And what was made is listed, in Kafka's own words for programs
    listed = run_here("acl", "list", "--user", user, "--format", "json", *admin)
    assert {(one["resource"], one["operation"]) for one in json.loads(listed.text)} == {
        ("topic", "read"),
        ("topic", "write"),
        ("group", "read"),
    }
    users = run_here("user", "list", "--format", "json", *admin)
    assert {"admin", user} <= {one["name"] for one in json.loads(users.text)}


def test_groups_are_listed_though_one_may_not_be_described(
    secured: Secured, run_here: RunHere, admin: list[str], tmp_path: Path
) -> None:
    # Given a group with a member, one without, and somebody who may only describe the cluster
    topic, user = secured.new_topic(), secured.new_user()
    busy, idle = f"busy-{topic}", f"idle-{topic}"
    member = Streamctl(bootstrap="").start("consume", "--topic", topic, "--group", busy, *admin)
    member.wait_for_note("Ctrl-C ends")
    reset = run_here("group", "reset", idle, "--topic", topic, "--to-earliest", "--execute", *admin)
    assert reset.exit_code == 0, reset
    secured.allow(*acl(user, "DESCRIBE", "BROKER", "kafka-cluster"))
    login = secured.login(user, "SASL_SSL", "SCRAM-SHA-512")
    options = _options(login, tmp_path / "client.properties")

    # When the groups are listed
    shown = run_here("group", "list", *options)
    in_json = run_here("group", "list", "--json", *options)
    member.interrupt()

    # Then both are there, and only the members of the one are not told
    assert (shown.exit_code, in_json.exit_code) == (0, 0), shown
    rows = [line.split() for line in shown.lines]
    assert [busy, "Classic", "Stable", "-"] in rows
    assert [idle, "Classic", "Empty", "0"] in rows
    members = {one["group_id"]: one["members"] for one in json.loads(in_json.text)}
    assert (members[busy], members[idle]) == (None, 0)
    assert "members of 1 group are not told" in shown.err
    assert f"streamctl acl add --user USER --operation describe --group {busy}" in shown.err


def test_an_operation_that_is_named_twice_counts_once(
    secured: Secured, run_here: RunHere, admin: list[str]
) -> None:
    what = ("--user", secured.new_user(), "--operation", "read", "--operation", "READ")
    for command in ("add", "delete"):
        yes = ("--yes",) if command == "delete" else ()
        ended = run_here("acl", command, *what, "--topic", "twice", *yes, *admin)
        assert (ended.exit_code, len(ended.lines)) == (0, 1), ended


def test_acls_of_every_kind_are_listed(
    secured: Secured, run_here: RunHere, admin: list[str]
) -> None:
    rules = [
        *traffic("lister", "*", "*"),
        *acl("lister", "ALL", "TOPIC", "raw.", prefixed=True, denied=True, host="192.0.2.1"),
        *acl("lister", "IDEMPOTENT_WRITE", "BROKER", "kafka-cluster"),
        *acl("lister", "DESCRIBE", "TRANSACTIONAL_ID", "etl"),
    ]
    secured.allow(*rules)
    listed = run_here("acl", "list", "--user", "lister", "--format", "json", *admin)
    assert len(json.loads(listed.text)) == len(rules)
    deleted = run_here("acl", "delete", "--user", "lister", "--yes", *admin)
    assert len(deleted.lines) + len(deleted.err.splitlines()) == len(rules), deleted
    assert (
        json.loads(run_here("acl", "list", "--user", "lister", "--format", "json", *admin).text)
        == []
    )


def test_acls_of_a_name_that_was_taken_for_a_principal_are_found_by_it(
    secured: Secured, run_here: RunHere, admin: list[str]
) -> None:
    # Given an ACL for a name with colons as streamctl makes it, and one as it once did
    name = "system:serviceaccount:prod:etl"
    (rule,) = acl(name, "READ", "TOPIC", "raw")
    resource = (rule.restype, rule.name, rule.resource_pattern_type)
    once = AclBinding(*resource, name, rule.host, rule.operation, rule.permission_type)
    secured.allow(rule, once)

    # Then both are listed
    listing = ("acl", "list", "--user", name, "--format", "json", *admin)
    listed = json.loads(run_here(*listing).text)
    assert [one["principal"] for one in listed] == [f"User:{name}", name]

    # And deleted
    deleted = run_here("acl", "delete", "--user", name, "--operation", "read", "--yes", *admin)
    assert deleted.exit_code == 0, deleted
    assert json.loads(run_here(*listing).text) == []
