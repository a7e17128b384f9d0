"""streamctl snapshot: made, listed, described and deleted, beside a running broker."""

import json
from collections.abc import Callable, Iterator
from errno import EACCES
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from streamctl.errors import Failure
from streamctl.offline_stores import as_failures
from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.streamctl.forks import Ended
from tests.support.broker import running_broker

ANSWER_S = 30


class Cluster(NamedTuple):
    """A broker with an embedded Postgres, and the command line in this process."""

    confluent: Confluent
    data: Path
    run: Callable[..., Ended]

    def snapshot(self, *arguments: str) -> Ended:
        return self.run("snapshot", *arguments, "--data", str(self.data))

    def well(self, *arguments: str) -> Ended:
        ended = self.snapshot(*arguments)
        assert ended.exit_code == 0, ended.err
        return ended

    def topic(self, *values: str, partitions: int = 2) -> str:
        name = f"topic-{uuid4().hex[:8]}"
        self.confluent.create_topic(name, partition_count=partitions)
        self.confluent.produce(name, [SentRecord(key=None, value=one.encode()) for one in values])
        return name


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Confluent, Path]]:
    data = tmp_path_factory.mktemp("snapshots") / "data"
    with running_broker(data) as broker:
        yield Confluent(bootstrap=broker.bootstrap), data


@pytest.fixture
def own(
    running: tuple[Confluent, Path],
    run_here: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> Cluster:
    monkeypatch.delenv("STREAMHOUSE_POSTGRES", raising=False)
    return Cluster(*running, run_here)


def test_a_snapshot_from_its_making_to_its_end(own: Cluster) -> None:
    # Given two topics
    orders, payments = own.topic("a", "b", "c"), own.topic("d", partitions=1)
    topics = ("--topic", orders, "--topic", payments)

    # When a snapshot is made
    made = own.well("create", "first", *topics, "--retention", "7d")
    assert "snapshot first made: 3 partitions of 2 topics" in made.text

    # Then it is listed
    (listed,) = json.loads(own.well("list", "--json").text)
    assert (listed["id"], listed["partition_count"]) == ("first", 3)
    assert listed["topics"] == sorted((orders, payments))
    assert listed["expires_at"] is not None
    assert "first" in own.well("list").text

    # and described, with what has been lost of it since
    admin = AdminClient({"bootstrap.servers": own.confluent.bootstrap})
    admin.delete_topics([payments])[payments].result(ANSWER_S)
    described = json.loads(own.well("describe", "first", "--json").text)["partitions"]
    ends = {(each["topic"], each["partition"]): each["high_watermark"] for each in described}
    assert ends[payments, 0] == 1
    assert sum(end for (topic, _), end in ends.items() if topic == orders) == 3
    assert [each["topic"] for each in described if each["deleted"]] == [payments]
    assert sum(each["lost"] for each in described) == 1
    assert f"{payments} (deleted)" in own.well("describe", "first").text

    # and gone when it is deleted
    own.well("delete", "first")
    assert json.loads(own.well("list", "--json").text) == []


def test_a_snapshot_may_have_all_topics_for_ever(own: Cluster) -> None:
    # When all topics are to be in it, without an end
    topic = own.topic()
    made = json.loads(
        own.well("create", "all", "--all-topics", "--retention", "infinite", "--json").text
    )

    # Then they are
    assert topic in made["topics"]
    assert made["expires_at"] is None
    assert "never expires" in own.well("describe", "all").err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("create", "x"), 2, "it is not said which topics"),
        (("create", "x", "--topic", "t", "--all-topics"), 2, "--all-topics has them all"),
        (("create", "1x", "--all-topics"), 2, "no id of a snapshot"),
        (("create", "x", "--topic", "missing"), 1, "there is no topic missing"),
        (("create", "x", "--all-topics", "--retention", "7"), 2, "no unit"),
        (("create", "x", "--all-topics", "--retention", "366000d"), 2, "--retention infinite"),
        (("create", "x", "--all-topics", "--retention", "99999999999d"), 2, "1,000 years"),
        (("describe", "missing"), 1, "there is no snapshot missing"),
        (("delete", "missing"), 1, "there is no snapshot missing"),
    ],
)
def test_what_cannot_be_done_is_said(
    own: Cluster, arguments: tuple[str, ...], code: int, message: str
) -> None:
    # When a command makes no sense, then it says why
    ended = own.snapshot(*arguments)
    assert (ended.exit_code, ended.out) == (code, b"")
    assert message in ended.err


def test_a_name_is_taken_once(own: Cluster) -> None:
    # Given a snapshot
    own.well("create", "taken", "--all-topics")

    # When another one of its name is made, then it says how to go on
    ended = own.snapshot("create", "taken", "--all-topics")
    assert ended.exit_code == 1
    assert "streamctl snapshot delete taken" in ended.err


def test_a_database_of_somebody_else_is_said_to_be_one() -> None:
    # When the system does not let us look, which a test that runs as root cannot bring about
    with pytest.raises(Failure) as refused, as_failures():
        raise PermissionError(EACCES, "Permission denied", "/data/postgres/PG_VERSION")

    # Then it says what, and who may
    assert "/data/postgres/PG_VERSION: Permission denied" in refused.value.message
    assert "the user that the broker runs as" in refused.value.fix


def test_where_postgres_is_has_to_be_said(own: Cluster) -> None:
    # When no place is named, then the options are
    ended = own.run("snapshot", "list")
    assert ended.exit_code == 2
    assert "--postgres DSN" in ended.err


@pytest.mark.parametrize(
    ("place", "exit_code", "told"),
    [("127.0.0.1:99999", 2, "65535"), ("a..b", 1, "no host has such a name")],
)
def test_an_address_of_postgres_that_cannot_be_is_told_plainly(
    run_here: Callable[..., Ended], place: str, exit_code: int, told: str
) -> None:
    ended = run_here("snapshot", "list", "--postgres", f"postgresql://user@{place}/streamhouse")
    assert ended.exit_code == exit_code
    assert told in ended.err
