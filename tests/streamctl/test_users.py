"""Users and their passwords from the command line; ACLs, and what Tab offers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from streamctl.cluster import Cluster
from tests.streamctl.conftest import FINISH_S, Streamctl
from tests.streamctl.forks import Ended


def users(streamctl: Streamctl) -> dict[str, dict[str, int]]:
    listed = json.loads(streamctl.well("user", "list", "--format", "json").text)
    return {one["name"]: one["mechanisms"] for one in listed}


def test_a_user_gets_a_password_another_one_and_none(streamctl: Streamctl, tmp_path: Path) -> None:
    # Given a user whose password came by standard input, and one whose password came from a file
    secret = b"correct horse battery staple\n"
    streamctl.well("user", "set-password", "alice", "--password-file", "-", stdin=secret)
    file = tmp_path / "password"
    file.write_bytes(secret)
    streamctl.well(
        *("user", "set-password", "bob", "--password-file", str(file)),
        *("--mechanism", "scram-sha-512", "--iterations", "8192"),
    )
    assert users(streamctl) == {
        "alice": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096},
        "bob": {"SCRAM-SHA-512": 8192},
    }

    # When one mechanism of one, and then all of both are deleted
    streamctl.well("user", "delete", "alice", "--mechanism", "SCRAM-SHA-256", "--yes")
    assert users(streamctl)["alice"] == {"SCRAM-SHA-512": 4096}
    streamctl.well("user", "delete", "alice", "--yes")
    streamctl.well("user", "delete", "bob", "--yes")

    # Then nobody is left, and there is nothing more to delete
    assert "no users" in streamctl.well("user", "list").err
    assert "no such password" in streamctl("user", "delete", "alice", "--yes").err


def test_an_empty_password_is_refused(streamctl: Streamctl) -> None:
    ended = streamctl("user", "set-password", "carol", "--password-file", "-", stdin=b"\n")
    assert ended.exit_code == 1
    assert "empty" in ended.err


def test_a_password_that_is_not_utf_8_is_refused(
    streamctl: Streamctl, run_here: Callable[..., Ended], tmp_path: Path
) -> None:
    # Given a password in a file, and the same on standard input
    secret = b"hunter2\xff\n"
    file = tmp_path / "password"
    file.write_bytes(secret)
    set_password = ("user", "set-password", "carol", "--password-file")

    # When it is to be carol's, then it is said what is wrong, and the password is not
    for ended in (streamctl(*set_password, "-", stdin=secret), run_here(*set_password, str(file))):
        assert ended.exit_code == 1
        assert "is not UTF-8 text" in ended.err
        assert "hunter2" not in ended.err
        assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("user", "set-password", "alice"), "--password-file -"),  # no terminal to ask
        (("user", "set-password", "", "--password-file", "/dev/null"), "a user has a name"),
        (("user", "set-password", "alice", "--iterations", "5"), "4096"),
        (("user", "set-password", "alice", "--mechanism", "md5"), "SCRAM-SHA-256"),
        (("acl", "add", "--user", "alice", "--topic", "t"), "--operation"),
        (("acl", "add", "--user", "a", "--topic", "t", "--operation", "see"), "describe"),
        (("acl", "list", "--topic", "t", "--group", "g"), "give one of"),
        (("acl", "delete", "--yes"), "whose ACLs"),
    ],
)
def test_a_mistake_is_explained(
    run_here: Callable[..., Ended], arguments: tuple[str, ...], said: str
) -> None:
    ended = run_here(*arguments)
    assert ended.exit_code != 0
    assert said in ended.err


def test_acls_of_a_cluster_that_checks_none_are_refused_with_the_reason(
    streamctl: Streamctl,
) -> None:
    ended = streamctl("acl", "add", "--user", "alice", "--operation", "read", "--topic", "t")
    assert ended.exit_code == 1
    assert "checks no permissions" in ended.err


def test_tab_offers_commands_and_topics(
    streamctl: Streamctl,
    cluster: Cluster,
    topic_name: str,
    run_here: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a topic, and a line that ends in the beginning of its name
    cluster.create_topic(topic_name, partitions=1, replication_factor=-1, settings={})
    monkeypatch.setenv("_STREAMCTL_COMPLETE", "complete_bash")

    def offered(words: str, run: Callable[..., Ended] = streamctl) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        return [line for line in run().lines if line]

    # When Tab is pressed, then it is offered; and nothing is if no cluster answers
    assert offered("streamctl --bootstrap 127.0.0.1:1 topic describe to") == []
    assert offered("streamctl quo") == ["quota"]
    monkeypatch.setattr("streamctl.names.WAIT_S", FINISH_S)  # of one that is slow to answer
    monkeypatch.setenv("STREAMHOUSE_BOOTSTRAP", streamctl.bootstrap)
    assert offered(f"streamctl topic describe {topic_name[:9]}", run_here) == [topic_name]
