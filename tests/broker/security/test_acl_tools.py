"""kafka-acls and streamctl acl at this broker, by an administrator and by somebody else."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.clients.java_tools import java_tools
from tests.clients.processes import run
from tests.support.broker import BrokerProcess

ACL_COMMAND: Final = "org.apache.kafka.tools.AclCommand"
STREAMCTL: Final = (sys.executable, "-c", "from streamctl.main import main; main()")
FINISH_S: Final = 60.0


def kafka_acls(broker: BrokerProcess, *arguments: str) -> str:
    tools = java_tools(broker.bootstrap)
    command = [*tools.command(ACL_COMMAND), "--bootstrap-server", broker.bootstrap]
    return run([*command, *arguments], timeout_s=FINISH_S).stdout


def streamctl(broker: BrokerProcess, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*STREAMCTL, "acl", *arguments],
        capture_output=True,
        text=True,
        timeout=FINISH_S,
        check=False,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "STREAMHOUSE_BOOTSTRAP": broker.bootstrap, "NO_COLOR": "1"},
    )


def acls_of(broker: BrokerProcess, user: str) -> list[dict[str, Any]]:
    listed = streamctl(broker, "list", "--user", user, "--format", "json")
    assert listed.returncode == 0, listed.stderr
    found: list[dict[str, Any]] = json.loads(listed.stdout)
    return found


def test_what_one_tool_adds_the_other_shows_and_removes(
    acl_broker: BrokerProcess, name: str
) -> None:
    # Given a producer's ACLs, all from one call of Kafka's tool
    principal = f"User:{name}"
    producer = ("--producer", "--topic", name, "--transactional-id", f"{name}-pay", "--idempotent")
    kafka_acls(acl_broker, "--add", "--allow-principal", principal, *producer)

    # Then streamctl shows them
    shown = {(acl["resource"], acl["name"], acl["operation"]) for acl in acls_of(acl_broker, name)}
    assert shown == {
        *(("topic", name, operation) for operation in ("create", "describe", "write")),
        *(("transactional-id", f"{name}-pay", operation) for operation in ("describe", "write")),
        ("cluster", "kafka-cluster", "idempotent-write"),
    }

    # When one is denied beside them by streamctl, with a prefix, then Kafka's tool finds it
    denied = streamctl(
        acl_broker,
        "add",
        "--deny",
        "--user",
        name,
        "--operation",
        "all",
        "--topic",
        name,
        "--prefix",
    )
    assert denied.returncode == 0, denied.stderr
    match = ("--resource-pattern-type", "match", "--topic", f"{name}-1", "--principal", principal)
    found = kafka_acls(acl_broker, "--list", *match)
    assert "operation=ALL, permissionType=DENY" in found
    assert "operation=WRITE" not in found

    # And what Kafka's tool removes is gone
    kafka_acls(acl_broker, "--remove", "--force", "--allow-principal", principal, *producer)
    assert [acl["permission"] for acl in acls_of(acl_broker, name)] == ["deny"]


def test_streamctl_adds_lists_and_deletes(acl_broker: BrokerProcess, name: str) -> None:
    # Given two ACLs of a user with a certificate's name
    user = f"User:CN={name},O=Example"
    added = streamctl(
        *(acl_broker, "add", "--user", user, "--topic", name, "--host", "::1"),
        *("--operation", "read", "--operation", "describe"),
    )
    assert added.returncode == 0, added.stderr
    assert f"{user} may read topic {name} from ::1" in added.stdout

    # When they are deleted, then that is told, and a second time there is nothing
    deleted = streamctl(acl_broker, "delete", "--user", user, "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert deleted.stdout.count("deleted:") == 2
    again = streamctl(acl_broker, "delete", "--user", user, "--yes")
    assert again.returncode == 1
    assert "no ACL fits" in again.stderr


def test_streamctl_says_what_is_wrong(acl_broker: BrokerProcess) -> None:
    refused = streamctl(acl_broker, "add", "--user", "x", "--operation", "read", "--topic", "")
    assert refused.returncode == 1
    assert "INVALID_REQUEST" in refused.stderr
    senseless = streamctl(acl_broker, "add", "--user", "x", "--operation", "fly", "--topic", "t")
    assert senseless.returncode == 2
