"""Topics are made, shown, changed and deleted from the command line."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from streamctl.cluster import Cluster
from tests.streamctl.conftest import FINISH_S, Streamctl
from tests.streamctl.forks import Ended

NOBODY = "127.0.0.1:1"  # no HTTP port is there


def _described(streamctl: Streamctl, name: str) -> dict[str, Any]:
    shown = streamctl.well("topic", "describe", name, "--http", NOBODY, "--format", "json")
    (topic,) = json.loads(shown.text)
    assert isinstance(topic, dict)
    return topic


def _settings(topic: dict[str, Any]) -> dict[str, str]:
    return {
        setting["name"]: setting["value"]
        for setting in topic["settings"]
        if setting["source"] == "topic"
    }


def test_a_topic_has_what_it_was_created_with(streamctl: Streamctl, topic_name: str) -> None:
    # Given a topic made with friendly options and one of Kafka's own names
    streamctl.well(
        *(
            "topic",
            "create",
            "--name",
            topic_name,
            "--partitions",
            "6",
            "--retention",
            "30d",
            "--compression",
            "lz4",
        ),
        *("--retention-bytes", "10GiB", "--cleanup-policy", "compact,delete"),
        *("--set", "max.message.bytes=2097152"),
    )

    # When it is described
    topic = _described(streamctl, topic_name)

    # Then it has 64-bit retention, and six empty partitions
    assert _settings(topic) == {
        "retention.ms": "2592000000",
        "retention.bytes": "10737418240",
        "compression.type": "lz4",
        "cleanup.policy": "compact,delete",
        "max.message.bytes": "2097152",
    }
    assert [partition["partition"] for partition in topic["partitions"]] == list(range(6))
    for partition in topic["partitions"]:
        assert partition["leader"] in partition["in_sync_replicas"]
        assert (partition["log_start_offset"], partition["high_watermark"]) == (0, 0)
        assert partition["log_end_offset"] is None


def test_describe_reads_well_and_says_what_it_does_not_know(
    streamctl: Streamctl, topic: str
) -> None:
    streamctl.well("topic", "alter", topic, "--retention", "1d12h")
    shown = streamctl.well("topic", "describe", topic, "--http", NOBODY)
    assert f"{topic}  7 partitions, replication " in shown.lines[0]
    assert "  retention.ms=129600000 (1d12h)" in shown.lines
    assert any(
        line.startswith("PARTITION  LEADER  REPLICAS  ISR  LOG START") for line in shown.lines
    )
    assert len([line for line in shown.lines if line.rstrip().endswith(" -")]) == 7
    assert NOBODY in shown.err
    assert "\x1b" not in shown.text


@pytest.fixture
def described(
    streamctl: Streamctl,
    topic: str,
    run_here: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Ended]:
    """Return what describes the topic, and has the patience for pages that come late."""
    monkeypatch.setattr("streamctl.log_end._TIMEOUT_S", FINISH_S)

    def describe(*options: str) -> Ended:
        return run_here("--bootstrap", streamctl.bootstrap, "topic", "describe", topic, *options)

    return describe


def test_log_end_offsets_come_from_the_metrics_page(
    streamctl: Streamctl, topic: str, described: Callable[..., Ended]
) -> None:
    # Given records in partition 1, and a broker's page that knows three partitions of the topic
    streamctl.well("produce", "--topic", topic, "--partition", "1", "--message", "x")
    page = (
        "# TYPE streamhouse_partition_log_end_offset gauge\n"
        f'streamhouse_partition_log_end_offset{{topic="{topic}",partition="0"}} 5.0\n'
        f'streamhouse_partition_log_end_offset{{partition="1",topic="{topic}"}} 0\n'
        f'streamhouse_partition_log_end_offset{{topic="{topic}",partition="2"}} 1.2e+01\n'
        'streamhouse_partition_log_end_offset{topic="other",partition="3"} 7\n'
    )

    # When the topic is described with that page
    with _metrics(page) as http:
        (topic_shown,) = json.loads(described("--http", http, "--format", "json").text)

    # Then each end is taken, but not one before the high watermark: that page is out of date
    ends = {at["partition"]: at["log_end_offset"] for at in topic_shown["partitions"]}
    assert ends == {0: 5, 1: None, 2: 12, 3: None, 4: None, 5: None, 6: None}


def test_log_end_offsets_come_from_as_many_brokers_as_are_named(
    topic: str, described: Callable[..., Ended]
) -> None:
    # Given two brokers' pages, of which each tells what its broker leads
    gauge = 'streamhouse_partition_log_end_offset{{topic="{}",partition="{}"}} {}\n'
    pages = [
        "".join(gauge.format(topic, at, end) for at, end in ends)
        for ends in ([(0, 5), (1, 6), (2, 7)], [(2, 3), (4, 9)])
    ]

    # When both are named, and a third address where nobody answers
    with _metrics(pages[0]) as one, _metrics(pages[1]) as other:
        several = ("--http", f"{one},{NOBODY}, {other}")
        shown = described(*several)
        (topic_shown,) = json.loads(described(*several, "--format", "json").text)

    # Then the later end of each partition counts, and whose are missing is told
    ends = {at["partition"]: at["log_end_offset"] for at in topic_shown["partitions"]}
    assert ends == {0: 5, 1: 6, 2: 7, 3: None, 4: 9, 5: None, 6: None}
    (leader,) = {at["leader"] for at in topic_shown["partitions"]}
    assert f"led by broker {leader}" in shown.err
    assert "--http HOST:PORT,HOST:PORT" in shown.err


def test_topics_are_listed_for_people_and_programs(streamctl: Streamctl, topic: str) -> None:
    listed = json.loads(streamctl.well("topic", "list", "--format", "json").text)
    (entry,) = [entry for entry in listed if entry["name"] == topic]
    assert entry["partitions"] == 7
    assert entry["internal"] is False
    rows = [line.split() for line in streamctl.well("topic", "list").lines]
    assert rows[0] == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert [topic, "7", str(entry["replication_factor"])] in rows


def test_topics_of_users_are_listed_whatever_their_names(
    streamctl: Streamctl, topic_name: str
) -> None:
    # Given a topic of a user, with a name as Kafka's own topics have
    own = f"__{topic_name}"
    streamctl.well("topic", "create", own)

    # Then it is listed, as it is none of Kafka's own
    try:
        listed = json.loads(streamctl.well("topic", "list", "--format", "json").text)
        assert [one["internal"] for one in listed if one["name"] == own] == [False]
    finally:
        streamctl.well("topic", "delete", own, "--yes")


def test_a_topic_is_altered(streamctl: Streamctl, topic: str) -> None:
    streamctl.well("topic", "alter", "--name", topic, "--partitions", "9", "--retention", "7d")
    grown = _described(streamctl, topic)
    assert len(grown["partitions"]) == 9
    assert _settings(grown) == {"retention.ms": "604800000"}

    streamctl.well(
        *("topic", "alter", topic, "--unset", "retention.ms"),
        *("--compression", "none", "--set", "segment.ms=1000000"),
    )
    altered = _settings(_described(streamctl, topic))
    assert altered == {"compression.type": "uncompressed", "segment.ms": "1000000"}


def test_a_setting_that_is_refused_adds_no_partitions(streamctl: Streamctl, topic: str) -> None:
    # When more partitions are asked for, with a setting that cannot be
    alter = ("topic", "alter", topic, "--partitions", "9", "--set")
    refused = streamctl(*alter, "retention.ms=soon")

    # Then nothing is done
    assert (refused.exit_code, refused.text) == (1, "")
    assert len(_described(streamctl, topic)["partitions"]) == 7

    # And the corrected command does all, also where half of it was done before
    streamctl.well(*alter, "retention.ms=1000")
    again = streamctl.well(*alter, "retention.ms=2000")
    assert "has 9 partitions already" in again.err
    grown = _described(streamctl, topic)
    assert (len(grown["partitions"]), _settings(grown)) == (9, {"retention.ms": "2000"})
    only = streamctl("topic", "alter", topic, "--partitions", "9")
    assert only.exit_code == 1
    assert "has 9 partitions already" in only.err


def test_partitions_are_never_taken_away(streamctl: Streamctl, topic: str) -> None:
    fewer = streamctl("topic", "alter", topic, "--partitions", "3")
    assert fewer.exit_code == 1
    assert "has 7 partitions; Kafka cannot take any away" in fewer.err


def test_more_partitions_than_the_client_can_ask_for(
    streamctl: Streamctl, topic: str, topic_name: str
) -> None:
    for refused in (
        streamctl("topic", "create", f"{topic_name}-2", "--partitions", "1000000"),
        streamctl("topic", "alter", topic, "--partitions", "1000000"),
    ):
        assert refused.exit_code == 1
        assert refused.err.startswith("error: ")
        assert "1..100000" in refused.err
    beyond = streamctl("topic", "create", f"{topic_name}-2", "--partitions", "99999999999")
    assert beyond.exit_code == 1
    assert beyond.err.startswith("error: a number is too large: 2,147,483,647 at most")


def test_several_topics_go_at_once_but_not_unasked(streamctl: Streamctl, topic_name: str) -> None:
    # Given two topics
    names = [f"{topic_name}-a", f"{topic_name}-b"]
    streamctl.well("topic", "create", *names)

    # When they are deleted without --yes where nobody can answer, then with it
    unasked = streamctl("topic", "delete", *names)
    deleted = streamctl.well("topic", "delete", *names, "--yes")

    # Then the first try did nothing
    assert unasked.exit_code == 2
    assert "--yes" in unasked.err
    assert [line.split()[-1] for line in deleted.lines] == names
    assert streamctl("topic", "describe", names[0]).exit_code == 1


def test_topics_are_made_and_deleted_also_if_nobody_reads_that(
    streamctl: Streamctl, cluster: Cluster, topic_name: str
) -> None:
    # Given three names
    names = [f"{topic_name}-{at}" for at in range(3)]

    # When topics of these are made, altered and deleted by commands whose readers have gone
    made = streamctl.start("topic", "create", *names, "--partitions", "1").stop_reading()
    there = set(cluster.topic_names())
    altered = streamctl.start("topic", "alter", *names, "--partitions", "2").stop_reading()
    counts = [len(one.partitions) for one in cluster.topics(names)]
    deleted = streamctl.start("topic", "delete", *names, "--yes").stop_reading()

    # Then each of them was
    assert [(one.exit_code, one.err) for one in (made, altered, deleted)] == [(0, "")] * 3
    assert set(names) <= there
    assert counts == [2, 2, 2]
    assert not set(names) & set(cluster.topic_names())


def test_creating_twice_is_an_error_unless_told_otherwise(streamctl: Streamctl, topic: str) -> None:
    again = streamctl("topic", "create", topic)
    assert again.exit_code == 1
    assert "already exists" in again.err
    assert "--if-not-exists" in again.err
    assert "nothing changed" in streamctl.well("topic", "create", topic, "--if-not-exists").err


def test_a_topic_that_another_makes_meanwhile_is_left_alone(
    streamctl: Streamctl,
    cluster: Cluster,
    topic: str,
    run_here: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a topic that was not there when topics were looked at
    monkeypatch.setattr(Cluster, "topic_names", lambda _: [])
    create = ("--bootstrap", streamctl.bootstrap, "topic", "create", topic, f"{topic}-new")

    # When it is to be created with another, then only without --if-not-exists is that an error
    assert "already exists" in run_here(*create).err
    done = run_here(*create, "--if-not-exists")
    assert (done.exit_code, done.lines) == (0, [f"✓ created topic {topic}-new"])
    assert f"topic {topic} is there already; nothing changed" in done.err
    cluster.delete_topic(f"{topic}-new")


def test_a_topic_that_goes_meanwhile_is_not_listed(
    streamctl: Streamctl,
    topic: str,
    run_here: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a topic that was there when topics were looked at
    monkeypatch.setattr(Cluster, "topic_names", lambda _: ["gone", topic])

    # When topics are listed, then it is left out
    listed = run_here("--bootstrap", streamctl.bootstrap, "topic", "list", "--json")
    assert listed.exit_code == 0, listed.err
    assert [one["name"] for one in json.loads(listed.text)] == [topic]


def test_a_name_nearly_right_is_suggested(streamctl: Streamctl, topic: str) -> None:
    wrong = streamctl("topic", "describe", topic[:-1])
    assert wrong.exit_code == 1
    assert "did you mean " in wrong.err
    assert topic in wrong.err  # others may have names like it
    assert "streamctl topic list" in wrong.err


@pytest.mark.parametrize("command", ["describe", "delete", "alter"])
def test_who_works_on_topics_is_not_told_to_create_one(
    streamctl: Streamctl, topic_name: str, command: str
) -> None:
    options = {"alter": ["--retention", "1d"], "delete": ["--yes"]}
    wrong = streamctl("topic", command, topic_name, *options.get(command, []))
    assert wrong.exit_code == 1
    assert f"topic '{topic_name}' does not exist" in wrong.err
    assert "streamctl topic list" in wrong.err
    assert "create" not in wrong.err


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("create", "--partitions", "3"), "--name NAME"),
        (("create", "x", "--partitions", "0"), "at least 1 partition"),
        (("create", "x", "--retention", "30 days"), "30d, 12h"),
        (("create", "x", "--retention-bytes", "10G"), "10GiB"),
        (("create", "x", "--compression", "brotli"), "lz4"),
        (("create", "bad name"), "letters, digits"),
        (("create", "x", "--retention", "1d", "--set", "retention.ms=5"), "given twice"),
        (("create", "x", "--set", "retention.ms=1", "--set", "retention.ms=2"), "given twice"),
        (("create", "x", "--set", "retention.ms"), "name=value"),
        (("create", "x", "--config", "retention.ms=1"), "--set retention.ms=1"),
        (("create", "x", "--config", "sasl.password=hush"), "-X sasl.password="),
        (("alter", "x"), "nothing to change"),
        (("alter", "x", "--retention", "1d", "--unset", "retention.ms"), "both set and unset"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_with_advice(
    run_here: Callable[..., Ended], arguments: tuple[str, ...], advice: str
) -> None:
    refused = run_here("topic", *arguments)
    assert refused.exit_code == 2
    assert advice in refused.err
    assert "Traceback" not in refused.err
    assert "hush" not in refused.err


def test_the_metrics_page_is_read_once_for_all_topics(
    streamctl: Streamctl,
    topic: str,
    run_here: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a page that tells of a topic with a partition, and of one with seven
    small = f"{topic}-small"
    streamctl.well("topic", "create", small, "--partitions", "1")
    gauge = 'streamhouse_partition_log_end_offset{{topic="{}",partition="0"}} {}\n'
    page = gauge.format(topic, 5) + gauge.format(small, 6)
    asked: list[str] = []

    def get_page(http: str, path: str, *, answer_s: float) -> tuple[int, str]:
        asked.append(path)
        return 200, page

    monkeypatch.setattr("streamctl.log_end.get_page", get_page)

    # When both are described
    named = ("--bootstrap", streamctl.bootstrap, "topic", "describe", topic, small, "--json")
    described = json.loads(run_here(*named).text)
    streamctl.well("topic", "delete", small, "--yes")

    # Then it was asked for once, and each topic has its own end
    assert asked == ["/metrics"]
    ends = {one["name"]: one["partitions"][0]["log_end_offset"] for one in described}
    assert ends == {topic: 5, small: 6}


def test_unsetting_what_is_no_setting_is_told(streamctl: Streamctl, topic: str) -> None:
    done = streamctl.well("topic", "alter", topic, "--unset", "foo", "--unset", "retention.ms")
    assert f"altered topic {topic}" in done.text
    assert "topics have no setting foo" in done.err
    assert "retention.ms" not in done.err


@contextmanager
def _metrics(page: str) -> Iterator[str]:
    """Serve one metrics page over HTTP; yield its HOST:PORT."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Keep the test's output clean."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
