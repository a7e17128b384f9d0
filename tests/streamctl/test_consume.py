"""Messages are read from where people say, until they say."""

import json
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamctl import group_lag, stall_watch
from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.groups import Groups
from tests.streamctl.conftest import COMMAND, FINISH_S, REPOSITORY, Streamctl, create_topic
from tests.streamctl.forks import Ended
from tests.support.broker import running_broker


def _send(streamctl: Streamctl, topic: str, partition: int, count: int) -> None:
    lines = "".join(f"{partition}/{number}\n" for number in range(count))
    streamctl.well(
        *("produce", "--topic", topic, "--partition", str(partition)), stdin=lines.encode()
    )


def _values(streamctl: Streamctl, topic: str, *options: str) -> list[str]:
    shown = streamctl.well("consume", "--topic", topic, "--format", "raw", *options)
    return shown.lines


def test_text_shows_place_time_key_value_and_headers(streamctl: Streamctl, topic: str) -> None:
    streamctl.well(
        *("produce", "--topic", topic, "--partition", "2", "--key", "k", "--header", "a=b"),
        *("--message", "v\x1b[31m"),
    )
    read = streamctl.well("consume", "--topic", topic, "--from-beginning", "--exit-at-end")
    place, time, key, value, headers = read.lines[0].split("  ")
    assert (place, key, value, headers) == ("2@0", "k", r"v\x1b[31m", "a=b")
    assert time.endswith("Z")
    assert read.err == f"1 message read from {topic}\n"


def test_every_record_is_read_once_and_in_order(streamctl: Streamctl, topic: str) -> None:
    # Given more records than one poll brings, in two partitions
    _send(streamctl, topic, 0, 1700)
    _send(streamctl, topic, 4, 1300)

    # When the whole topic is read
    shown = streamctl.well(
        *("consume", "--topic", topic, "--from-beginning", "--exit-at-end", "--format", "json")
    )

    # Then each partition's offsets have no gap and no repetition
    records = [json.loads(line) for line in shown.lines]
    for partition, count in ((0, 1700), (4, 1300)):
        ours = [record for record in records if record["partition"] == partition]
        assert [record["offset"] for record in ours] == list(range(count))
        assert [record["value"] for record in ours] == [f"{partition}/{n}" for n in range(count)]
    assert len(records) == 3000
    assert "3,000 messages read" in shown.err


def test_reading_starts_and_stops_where_it_is_told(streamctl: Streamctl, topic: str) -> None:
    _send(streamctl, topic, 1, 10)
    _send(streamctl, topic, 5, 4)
    only = ("--partition", "1", "--exit-at-end")
    assert _values(streamctl, topic, *only, "--offset", "7") == ["1/7", "1/8", "1/9"]
    assert _values(streamctl, topic, *only, "--offset", "10") == []
    assert _values(streamctl, topic, *only, "--offset", "2", "--limit", "2") == ["1/2", "1/3"]
    assert sorted(_values(streamctl, topic, "--offset", "-2", "--exit-at-end")) == (
        ["1/8", "1/9", "5/2", "5/3"]
    )
    assert _values(streamctl, topic, "--exit-at-end") == []
    two = ("--partition", "5", "--partition", "1", "--offset", "earliest", "--exit-at-end")
    assert len(_values(streamctl, topic, *two)) == 14


def test_only_new_messages_show_until_ctrl_c(streamctl: Streamctl, topic: str) -> None:
    # Given a message from before, and a reader that has found its place at the end
    streamctl.well("produce", "--topic", topic, "--message", "old")
    reader = streamctl.start("consume", "--topic", topic, "--format", "raw")
    reader.wait_for_note("Ctrl-C ends")

    # When a new message comes, and then Ctrl-C
    streamctl.well("produce", "--topic", topic, "--message", "new")
    seen = reader.read_line()
    ended = reader.interrupt()

    # Then it read the new one alone, and ends with a count and no traceback
    assert seen == "new"
    assert ended.out == b""
    assert ended.exit_code == 130
    assert ended.err.splitlines()[-1] == f"1 message read from {topic}"
    assert "Traceback" not in ended.err


def test_a_quiet_topic_ends_a_reader_with_a_timeout(streamctl: Streamctl, topic: str) -> None:
    assert _values(streamctl, topic, "--timeout", "300ms") == []


def test_a_pipe_that_has_seen_enough_is_no_failure(streamctl: Streamctl, topic: str) -> None:
    _send(streamctl, topic, 0, 5000)
    arguments = ("--bootstrap", streamctl.bootstrap, "consume", "--topic", topic)
    command = shlex.join((*COMMAND, *arguments, "--from-beginning", "--exit-at-end"))
    piped = subprocess.run(
        ["bash", "-c", f'{command} | head -n 1; echo "code ${{PIPESTATUS[0]}}"'],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    assert piped.stdout.splitlines()[-1] == "code 0"
    assert "Traceback" not in piped.stderr
    assert "BrokenPipe" not in piped.stderr


def test_offsets_and_partitions_that_are_not_there_are_named(
    streamctl: Streamctl, topic: str
) -> None:
    _send(streamctl, topic, 1, 3)
    past = streamctl("consume", "--topic", topic, "--partition", "1", "--offset", "4")
    assert past.exit_code == 1
    assert "the next record gets 3" in past.err
    missing = streamctl("consume", "--topic", topic, "--partition", "9")
    assert missing.exit_code == 1
    assert "no partition 9" in missing.err
    unknown = streamctl("consume", "--topic", f"{topic}x")
    assert unknown.exit_code == 1
    assert f"did you mean {topic}?" in unknown.err


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streamctl]:
    """Yield the command line for a broker whose store has lost the object of topic `lost`."""
    data = tmp_path_factory.mktemp("lost") / "data"
    at_once = ("--set", "group.initial.rebalance.delay.ms=0")
    with running_broker(data, *at_once) as broker:
        create_topic(Cluster(Connection(bootstrap=broker.bootstrap)), "lost", partitions=2)
        _send(Streamctl(bootstrap=broker.bootstrap), "lost", 1, 3)
    for written in (data / "objects" / "wal").rglob("*"):
        if written.is_file():
            written.unlink()
    with running_broker(data, *at_once) as broker:
        yield Streamctl(bootstrap=broker.bootstrap)


@pytest.mark.parametrize("group", [(), ("--group", "readers")])
def test_an_end_that_cannot_be_reached_is_a_failure(
    lost: Streamctl,
    run_here: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    group: tuple[str, ...],
) -> None:
    # Given a partition whose records the broker cannot read, and a reader with less patience
    monkeypatch.setattr(stall_watch, "LOOK_EVERY_S", 0.3)
    monkeypatch.setattr(stall_watch, "GIVE_UP_S", 1.0)

    # When all of its topic is to be read
    command = ("--bootstrap", lost.bootstrap, "consume", "--topic", "lost", "--from-beginning")
    ended = run_here(*command, *group, "--exit-at-end")

    # Then it says once what it waits for and why, and fails with that
    assert ended.exit_code == 1
    assert ended.text == ""
    reason = "nothing comes from 1@0: topic 'lost': Disk error"
    assert [reason in line for line in ended.err.splitlines()].count(True) == 2
    assert f"error: {reason}" in ended.err
    assert "KAFKA_STORAGE_ERROR" in ended.err
    assert "streamctl fsck" in ended.err


def test_a_reader_without_an_end_says_what_it_waits_for(lost: Streamctl) -> None:
    reader = lost.start("consume", "--topic", "lost", "--from-beginning")
    reader.wait_for_note("nothing comes from 1@0")
    assert reader.interrupt().exit_code == 130
    quiet = lost.well("consume", "--topic", "lost", "--from-beginning", "--timeout", "1s")
    assert "nothing comes" not in quiet.err


def test_readers_at_the_end_say_that_their_broker_is_gone(tmp_path: Path) -> None:
    # Given a reader alone and a member of a group that have read and committed all there is
    at_once = ("--set", "group.initial.rebalance.delay.ms=0")
    with running_broker(tmp_path / "data", *at_once) as broker:
        streamctl = Streamctl(bootstrap=broker.bootstrap)
        cluster = Cluster(Connection(bootstrap=broker.bootstrap))
        create_topic(cluster, "tail", partitions=1)
        streamctl.well("produce", "--topic", "tail", "--message", "old")
        read = ("consume", "--topic", "tail", "--from-beginning", "--format", "raw")
        readers = [streamctl.start(*read), streamctl.start(*read, "--group", "readers")]
        assert [reader.read_line() for reader in readers] == ["old", "old"]
        give_up = time.monotonic() + FINISH_S
        while Groups(cluster.requests).committed("readers") != {("tail", 0): 1}:
            assert time.monotonic() < give_up
            time.sleep(0.05)
        time.sleep(1)  # nothing shows that they know the end, which a fetch (of 250 ms) tells them

    # When the broker is gone, then both say what they wait for
    for reader in readers:
        reader.wait_for_note("nothing comes from 0@1: no broker answered")
        assert reader.interrupt().exit_code == 130


@pytest.mark.parametrize("group", [("--offset", "-3"), ("--group", "hasty", "--from-beginning")])
def test_a_timeout_before_an_end_that_cannot_be_reached_is_a_failure(
    lost: Streamctl, group: tuple[str, ...]
) -> None:
    partial = lost("consume", "--topic", "lost", *group, "--exit-at-end", "--timeout", "1s")
    assert partial.exit_code == 1
    assert "error: nothing comes from 1@0" in partial.err


@pytest.mark.parametrize("group", [(), ("--group", "small")])
def test_a_timeout_before_an_end_that_nobody_refuses_is_a_failure_too(
    streamctl: Streamctl, topic: str, group: tuple[str, ...]
) -> None:
    # Given a record that is larger than all that the reader's client takes from a broker
    large = ("produce", "--topic", topic, "--partition", "2", "--message", "x" * 100_000)
    streamctl.well(*large)
    limits = ("message.max.bytes=9000", "fetch.max.bytes=9000", "receive.message.max.bytes=10000")
    small = tuple(word for limit in limits for word in ("-X", limit))

    # When the topic is read until nothing comes
    read = (*small, "consume", "--topic", topic, *group, "--from-beginning", "--exit-at-end")
    ended = streamctl(*read, "--timeout", "1s")

    # Then it is said where the reader stands
    assert ended.exit_code == 1
    assert ended.text == ""
    assert "error: nothing came from 2@0 in time: not read to the end" in ended.err


def test_a_member_that_has_nothing_left_to_read_is_at_the_end_at_once(
    streamctl: Streamctl, topic: str, group: str
) -> None:
    _send(streamctl, topic, 1, 3)
    read = ("--group", group, "--from-beginning", "--exit-at-end")
    assert len(_values(streamctl, topic, *read)) == 3
    assert _values(streamctl, topic, *read, "--timeout", "1ms") == []


def test_the_largest_message_that_is_sent_is_read(
    streamctl: Streamctl,
    cluster: Cluster,
    groups: Groups,
    group: str,
    topic: str,
    tmp_path: Path,
    run_here: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a message above what librdkafka takes from a broker by itself, and patience for it
    monkeypatch.setattr(group_lag, "READ_TIMEOUT_S", FINISH_S)
    cluster.alter_topic(topic, {"max.message.bytes": str(100 << 20)})
    size = 104_000_000
    (tmp_path / "large").write_bytes(b"x" * size)
    sent = ("produce", "--topic", topic, "--partition", "0", "--file", str(tmp_path / "large"))
    streamctl.well("-X", f"delivery.timeout.ms={FINISH_S * 1000}", *sent)
    groups.alter(group, {(topic, 0): 0})

    # When its age is asked for, and it is read alone and by a group
    named = ("--bootstrap", streamctl.bootstrap, "group", "describe", group)
    described = run_here(*named, "--format", "json").text
    read = ("--from-beginning", "--exit-at-end", "--timeout", f"{FINISH_S}s")
    read_ones = [
        _values(streamctl, topic, *read),
        _values(streamctl, topic, *read, "--group", group),
    ]

    # Then it comes
    (lag,) = (at["lag_seconds"] for at in json.loads(described)[0]["partitions"] if at["lag"])
    assert lag is not None
    assert [[len(value) for value in values] for values in read_ones] == [[size], [size]]


@pytest.mark.parametrize("group", [(), ("--group", "of-odd-headers")])
def test_a_header_whose_name_is_not_utf_8_stops_nobody(
    streamctl: Streamctl, topic: str, group: tuple[str, ...]
) -> None:
    # Given a record with such a header between two others
    streamctl.well("produce", "--topic", topic, "--partition", "0", "--message", "before")
    odd = ("kcat", "-P", "-b", streamctl.bootstrap, "-t", topic, "-p", "0", "-H", b"\xff\xfe=1")
    subprocess.run(odd, input=b"odd", check=True)
    streamctl.well("produce", "--topic", topic, "--partition", "0", "--message", "after")

    # When all are read
    command = ("consume", "--topic", topic, *group, "--from-beginning", "--exit-at-end")
    read = streamctl.well(*command, "--format", "json")

    # Then all come, and only its headers cannot be told
    told = [json.loads(line) for line in read.lines]
    assert [(one["value"], one["headers"]) for one in told] == [
        ("before", []),
        ("odd", None),
        ("after", []),
    ]
    assert (
        "<headers with a name that is not UTF-8>"
        in streamctl.well("consume", "--topic", topic, "--from-beginning", "--exit-at-end").text
    )


def test_reading_alone_leaves_no_group_behind(
    streamctl: Streamctl, topic: str, groups: Groups
) -> None:
    before = groups.ids()
    _send(streamctl, topic, 0, 5)
    assert len(_values(streamctl, topic, "--from-beginning", "--exit-at-end")) == 5
    assert groups.ids() == before


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (("--from-beginning", "--offset", "3"), "exclude each other"),
        (("--offset", "3"), "needs --partition"),
        (("--offset", "soon"), "earliest"),
        (("--limit", "0"), "at least one"),
        (("--timeout", "5"), "no unit"),
        (("--group", "g", "--partition", "1"), "--group and --partition exclude"),
        (("--group", "g", "--offset", "5"), "streamctl group reset g"),
        (("--auto-commit",), "needs --group"),
        (("--group", ""), "no name"),
        (("--group", "g", "-X", "group.id=h"), "group.id=h exclude"),
    ],
)
def test_impossible_reads_are_refused(
    run_here: Callable[..., Ended], options: tuple[str, ...], advice: str
) -> None:
    refused = run_here("consume", "--topic", "t", *options)
    assert refused.exit_code == 2
    assert advice in refused.err
