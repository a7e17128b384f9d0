"""Messages get from the command line, files and pipes into the log, and every loss is told."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.lines import LineSource
from streamctl.sending import Sender
from tests.streamctl.conftest import COMMAND, FINISH_S, REPOSITORY, Streamctl, create_topic
from tests.streamctl.forks import Ended
from tests.support.broker import running_broker

GIVES_UP_SOON = "delivery.timeout.ms=10000"  # of the first record, too, which is to arrive

# Where Apache Kafka 4.3.1's console producer put these keys in a topic of seven partitions.
JAVA_PARTITIONS = {
    "user-123": 0,
    "k1": 0,
    "0123456789": 1,
    "": 2,
    "k2": 2,
    "hello-world": 2,
    "k3": 4,
    "a": 5,
    "b": 6,
    "日本語": 6,
}


def _read(streamctl: Streamctl, topic: str, *options: str) -> list[dict[str, Any]]:
    shown = streamctl.well(
        *("consume", "--topic", topic, "--from-beginning", "--exit-at-end"),
        *("--format", "json", *options),
    )
    return [json.loads(line) for line in shown.lines]


def test_one_message_is_acknowledged_with_its_place(streamctl: Streamctl, topic: str) -> None:
    # When a message with a key and headers is sent, twice
    send = ("produce", "--topic", topic, "--key", "user-123", "--message", '{"event": "login"}')
    headers = ("--header", "trace=a=b", "--header", "trace=c", "--header", "empty=")
    first = streamctl.well(*send, *headers, "--compression", "zstd")
    second = streamctl.well(*send)

    # Then both are in the key's partition, as they were sent
    assert (first.text, second.text) == ("0@0\n", "0@1\n")
    records = _read(streamctl, topic)
    assert [(record["key"], record["value"]) for record in records] == [
        ("user-123", '{"event": "login"}')
    ] * 2
    assert records[0]["headers"] == [
        {"name": "trace", "value": "a=b"},
        {"name": "trace", "value": "c"},
        {"name": "empty", "value": ""},
    ]
    assert records[0]["timestamp_type"] == "create"


def test_keys_meet_the_partitions_that_java_clients_choose(
    streamctl: Streamctl, topic: str
) -> None:
    lines = "".join(f"{key}:value of {key}\n" for key in JAVA_PARTITIONS)
    sent = streamctl.well("produce", "--topic", topic, "--key-separator", ":", stdin=lines.encode())
    places = [int(line.partition("@")[0]) for line in sent.lines]
    assert places == list(JAVA_PARTITIONS.values())
    assert {record["key"]: record["partition"] for record in _read(streamctl, topic)} == (
        JAVA_PARTITIONS
    )


def test_a_file_of_many_lines_is_spread_and_summed_up(
    streamctl: Streamctl, topic: str, tmp_path: Path
) -> None:
    # Given 3,000 lines without keys
    lines = [f"line {number}" for number in range(3000)]
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(lines))

    # When they are sent
    sent = streamctl.well("produce", "--topic", topic, "--file", str(file))

    # Then only a sum is told, and all of them are there, in every partition
    assert sent.text == ""
    assert sent.err.startswith("3,000 messages (")
    assert "/s" in sent.err
    records = _read(streamctl, topic)
    assert sorted(record["value"] for record in records) == sorted(lines)
    assert {record["partition"] for record in records} == set(range(7))
    assert {record["key"] for record in records} == {None}


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 100])
def test_lines_do_not_depend_on_how_much_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr("streamctl.lines._CHUNK_BYTES", chunk_bytes)
    file = tmp_path / "lines.txt"
    file.write_bytes(b"\none\r\n\n\nfour\rfive\nsix\r")
    with file.open("rb") as stream:
        records = [one for one in LineSource(stream, key=b"k", separator=None) if one is not None]
    assert [one.value for one in records] == [b"", b"one", b"", b"", b"four\rfive", b"six"]


def test_stdin_may_be_a_file_or_nothing(streamctl: Streamctl, topic: str, tmp_path: Path) -> None:
    # Given a file of two lines
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")

    # When it is stdin, and then /dev/null is
    with file.open("rb") as lines:
        sent = streamctl.start("produce", "--topic", topic, stdin=lines).finish()
    nothing = streamctl.start("produce", "--topic", topic).finish()

    # Then its lines are there, and nothing is nothing
    assert (sent.exit_code, len(sent.lines)) == (0, 2), sent.err
    assert (nothing.exit_code, nothing.text) == (0, ""), nothing.err
    assert sorted(record["value"] for record in _read(streamctl, topic)) == ["one", "two"]


def test_null_empty_and_binary_arrive_as_they_are(streamctl: Streamctl, topic: str) -> None:
    streamctl.well("produce", "--topic", topic, "--key", "gone", "--tombstone")
    to_three = ("produce", "--topic", topic, "--partition", "3")
    streamctl.well(*to_three, "--message", "")
    streamctl.well(*to_three, stdin=b"\xff\x00\x1b[31m\r\n\n")
    values = {(at["partition"], at["offset"]): at["value"] for at in _read(streamctl, topic)}
    binary = {"base64": "/wAbWzMxbQ=="}
    assert [value for (partition, _), value in values.items() if partition != 3] == [None]
    assert [values[3, offset] for offset in range(3)] == ["", binary, ""]


def test_words_of_the_command_line_arrive_as_they_are(streamctl: Streamctl, topic: str) -> None:
    # When a key, a value and a header's value are sent that are not UTF-8
    word = os.fsdecode(b"\xff")
    message = ("--key", word, "--message", word, "--header", f"trace={word}")
    streamctl.well("produce", "--topic", topic, *message)

    # Then their bytes are in the log
    (record,) = _read(streamctl, topic)
    binary = {"base64": "/w=="}
    assert (record["key"], record["value"]) == (binary, binary)
    assert record["headers"] == [{"name": "trace", "value": binary}]


def test_what_the_broker_refuses_is_counted_and_fails(
    streamctl: Streamctl, cluster: Cluster, topic: str
) -> None:
    # Given a topic that takes small messages only
    cluster.alter_topic(topic, {"max.message.bytes": "1000"})

    # When a small one, and then a large one are sent
    streamctl.well("produce", "--topic", topic, "--message", "small")
    large = streamctl("produce", "--topic", topic, "--message", "x" * 5000)

    # Then the loss is told, and only the small one is there
    assert large.exit_code == 1
    assert large.text == "failed\n"
    assert "1 of 1 messages failed: Message size too large (MSG_SIZE_TOO_LARGE)\n" in large.err
    assert "fix: streamctl topic alter NAME --set max.message.bytes=N" in large.err
    assert [record["value"] for record in _read(streamctl, topic)] == ["small"]


def test_a_message_that_failed_is_told_also_if_nobody_reads_what_became_of_it(
    streamctl: Streamctl, cluster: Cluster, topic: str
) -> None:
    cluster.alter_topic(topic, {"max.message.bytes": "1000"})
    large = streamctl.start("produce", "--topic", topic, "--message", "x" * 5000).stop_reading()
    assert large.exit_code == 1
    assert "error: 1 of 1 messages failed" in large.err


def test_a_line_without_its_key_stops_the_rest(streamctl: Streamctl, topic: str) -> None:
    broken = streamctl(
        "produce", "--topic", topic, "--key-separator", "=>", stdin=b"a=>1\nb\nc=>3\n"
    )
    assert broken.exit_code == 1
    assert "line 2 has no '=>'" in broken.err
    assert [record["value"] for record in _read(streamctl, topic)] == ["1"]


def test_a_line_without_its_key_does_not_hide_what_failed_before_it(
    streamctl: Streamctl, cluster: Cluster, topic: str
) -> None:
    cluster.alter_topic(topic, {"max.message.bytes": "1000"})
    lines = b"a=>1\nb=>%5000d\nc\nd=>4\n" % 2
    broken = streamctl("produce", "--topic", topic, "--key-separator", "=>", stdin=lines)
    assert broken.exit_code == 1
    said = " ".join(broken.err.split())
    assert "line 3 has no '=>' between key and value; 1 of 2 messages failed: Message" in said
    assert "fix: the rest of the input was not sent" in said
    assert [record["value"] for record in _read(streamctl, topic)] == ["1"]


def test_a_topic_is_not_made_by_writing_to_it(streamctl: Streamctl, topic_name: str) -> None:
    lost = streamctl("produce", "--topic", topic_name, "--message", "x")
    assert lost.exit_code == 1
    assert f"topic '{topic_name}' does not exist" in lost.err
    assert f"streamctl topic create --name {topic_name}" in lost.err
    assert topic_name not in streamctl.well("topic", "list").text


def test_a_partition_that_is_not_there_is_named(streamctl: Streamctl, topic: str) -> None:
    lost = streamctl("produce", "--topic", topic, "--partition", "7", "--message", "x")
    assert lost.exit_code == 1
    assert "no partition 7" in lost.err
    assert "0 to 6" in lost.err


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (("--message", "a", "--file", __file__), "exclude each other"),
        (("--message", "a", "--tombstone"), "exclude each other"),
        (("--tombstone",), "--key"),
        (("--key", "k", "--key-separator", ":"), "--key-separator"),
        (("--key-separator", ""), "empty"),
        (("--message", "a", "--header", "novalue"), "name=value"),
        (("--file", "/nowhere/at/all"), "does not exist"),
        (("--message", "a", "--topic", ""), "cannot be a topic's name"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    run_here: Callable[..., Ended], options: tuple[str, ...], advice: str
) -> None:
    refused = run_here("produce", "--topic", "t", *options)
    assert refused.exit_code == 2
    assert advice in refused.err


def test_a_loss_is_told_while_the_pipe_is_open(
    streamctl: Streamctl, cluster: Cluster, topic: str
) -> None:
    # Given a pipe that goes on, and a message in it that is too large
    cluster.alter_topic(topic, {"max.message.bytes": "1000"})
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        sender = streamctl.start("produce", "--topic", topic, stdin=pipe)
    os.write(writing, b"x" * 5000 + b"\n")

    # Then that is said at once, and what comes later is sent
    sender.wait_for_note("1 of 1 messages failed: Message size too large (MSG_SIZE_TOO_LARGE)")
    os.write(writing, b"small\r\n\nlast")
    os.close(writing)
    ended = sender.finish()
    assert ended.exit_code == 1
    assert "error: 1 of 4 messages failed" in ended.err
    assert sorted(record["value"] for record in _read(streamctl, topic)) == ["", "last", "small"]


def test_a_silent_pipe_whose_broker_is_gone_ends_with_what_was_lost(tmp_path: Path) -> None:
    # Given a pipe that stays open, of which a line was sent
    reading, writing = os.pipe()
    with running_broker(tmp_path / "data") as broker:
        cluster = Cluster(Connection(bootstrap=broker.bootstrap))
        create_topic(cluster, "logs", partitions=1)
        with os.fdopen(reading, "rb") as pipe:
            command = ("-X", GIVES_UP_SOON, "produce", "--topic", "logs")
            sender = Streamctl(bootstrap=broker.bootstrap).start(*command, stdin=pipe)
        os.write(writing, b"first\n")
        deadline = time.monotonic() + FINISH_S
        while cluster.latest_offsets("logs", [0]) != {0: 1}:
            assert time.monotonic() < deadline, "the first line never arrived"
            time.sleep(0.05)

    # When the broker is gone, and nothing follows the next line
    os.write(writing, b"second\n")

    # Then the loss is not kept until the pipe is closed
    ended = sender.finish()
    os.close(writing)
    assert ended.exit_code == 1
    assert "1 of 2 messages failed: no broker acknowledged it in time" in ended.err
    assert "the rest of the input was not sent" in ended.err


def test_ctrl_c_inside_a_report_tells_how_much_is_acknowledged(
    streamctl: Streamctl,
    topic: str,
    run_here: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    # Given a file of which more is sent than is acknowledged when Ctrl-C comes
    file = tmp_path / "lines"
    file.write_bytes(b"line\n" * 30)
    report = Sender._report

    def interrupted(sender: Sender, error: KafkaError | None, message: Message) -> None:
        report(sender, error, message)
        if sender.delivered == 1:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Sender, "_report", interrupted)

    # When it is sent
    send = ("--bootstrap", streamctl.bootstrap, "produce", "--topic", topic, "--file", str(file))
    ended = run_here(*send)

    # Then it ends as everything does that Ctrl-C ends, and says what is not known
    assert ended.exit_code == 130
    said = r"interrupted: \d+ of 30 messages acknowledged(; others may be in the log, too)?\n"
    assert re.fullmatch(said, ended.err)


def test_a_broker_that_goes_away_fails_what_it_did_not_acknowledge(tmp_path: Path) -> None:
    # Given a broker that has acknowledged the first line of a pipe
    with running_broker(tmp_path / "data") as broker:
        cluster = Cluster(Connection(bootstrap=broker.bootstrap))
        cluster.create_topic("logs", partitions=1, replication_factor=-1, settings={})
        options = ("-X", GIVES_UP_SOON, "produce", "--topic", "logs")
        sender = subprocess.Popen(
            (*COMMAND, "--bootstrap", broker.bootstrap, *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=REPOSITORY,
        )
        assert sender.stdin is not None
        sender.stdin.write(b"first\n")
        sender.stdin.flush()
        deadline = time.monotonic() + FINISH_S
        while cluster.latest_offsets("logs", [0]) != {0: 1}:
            assert time.monotonic() < deadline, "the first line never arrived"
            time.sleep(0.05)

        # When the broker ends before the others are sent
        broker.process.terminate()
        broker.process.wait()
        out, err = sender.communicate(b"more\n" * 30, timeout=FINISH_S)

    # Then each of them is counted as lost, and the command fails
    assert sender.returncode == 1
    assert out == b""
    assert "30 of 31 messages failed: no broker acknowledged it in time, 30 times" in err.decode()
    assert "Connection refused" in err.decode()
    assert "the rest of the input was not sent" not in err.decode()
