"""Groups are listed, described, reset and deleted from the command line."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from streamctl.cluster import Cluster
from streamctl.groups import GroupInUse, Groups, UnknownGroup
from tests.streamctl.conftest import Running, Streamctl, create_topic, wait_until
from tests.streamctl.forks import Ended

Send = Callable[..., None]


def _described(streamctl: Streamctl, group: str) -> dict[str, Any]:
    shown = streamctl.well("group", "describe", group, "--format", "json")
    (described,) = json.loads(shown.text)
    assert isinstance(described, dict)
    return described


def _partition(described: dict[str, Any], index: int) -> dict[str, Any]:
    (found,) = [at for at in described["partitions"] if at["partition"] == index]
    assert isinstance(found, dict)
    return found


def _ago(least_s: float, *, now_ms: int) -> object:
    """Return what is equal to an age that was `least_s` at that time, and is asked for since."""
    waited_s = time.time() - now_ms / 1000
    return pytest.approx(least_s + waited_s / 2, abs=waited_s / 2 + 0.001)


def _member(streamctl: Streamctl, topic: str, group: str, *options: str) -> Running:
    member = streamctl.start("consume", "--topic", topic, "--group", group, *options)
    member.wait_for_note("Ctrl-C ends")
    return member


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_at_work_is_listed_and_described(
    streamctl: Streamctl, send: Send, groups: Groups, topic: str, group: str, protocol: str
) -> None:
    # Given a member that has read what there is
    member = _member(
        *(streamctl, topic, group, "--from-beginning"),
        *("-X", f"group.protocol={protocol}", "-X", "client.id=reader-1"),
    )
    send(topic, 3, ["a", "b"])
    member.read_line()
    member.read_line()
    wait_until(lambda: groups.committed(group)[topic, 3] == 2, "the commit of what was shown")

    # When people and programs look
    listed = json.loads(streamctl.well("group", "list", "--format", "json").text)
    rows = [line.split() for line in streamctl.well("group", "list").lines]
    described = _described(streamctl, group)
    shown = streamctl.well("group", "describe", group, "--members")
    member.interrupt()

    # Then they see it, its member, and that nothing is left to read
    kind = {"classic": "Classic", "consumer": "Consumer"}[protocol]
    entry = {"group_id": group, "type": kind, "state": "Stable", "members": 1}
    assert entry in listed
    assert rows[0] == ["GROUP", "TYPE", "STATE", "MEMBERS"]
    assert [group, kind, "Stable", "1"] in rows
    assert (described["type"], described["state"]) == (kind, "Stable")
    assert described["assignor"] == {"classic": "range", "consumer": "uniform"}[protocol]
    coordinator = described["coordinator"]
    assert f"{coordinator['host']}:{coordinator['port']}" in shown.text
    (described_member,) = described["members"]
    assert described_member["client_id"] == "reader-1"
    assert described_member["partitions"] == [
        {"topic": topic, "partition": index} for index in range(7)
    ]
    assert _partition(described, 3) == {
        "topic": topic,
        "partition": 3,
        "committed_offset": 2,
        "log_end_offset": 2,
        "lag": 0,
        "lag_seconds": 0,
        "member_id": described_member["member_id"],
        "client_id": "reader-1",
        "host": described_member["host"],
    }
    assert any(line.startswith("TOPIC") and "LAG SECONDS" in line for line in shown.lines)
    assert [topic, "3", "2", "2", "0", "0", "reader-1"] in [
        line.split()[:7] for line in shown.lines
    ]
    assert f"{topic}[0,1,2,3,4,5,6]" in shown.text
    assert "\x1b" not in shown.text


def test_more_groups_are_described_than_are_asked_for_at_once(
    groups: Groups, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamctl.groups._DESCRIBED_AT_ONCE", 2)
    groups.alter(group, {(topic, 0): 0})
    absent = [f"{group}-{number}" for number in range(4)]
    assert list(groups.states([*absent, group])) == [group]


def test_lag_is_counted_in_records_and_in_seconds(
    streamctl: Streamctl, send: Send, groups: Groups, topic: str, group: str
) -> None:
    # Given partitions with 3 records of an hour ago, 2 of a minute ago, one ahead of time
    now_ms = time.time_ns() // 1_000_000
    send(topic, 0, ["x", "y", "z"], timestamp_ms=now_ms - 3_600_000)
    send(topic, 1, ["x"], timestamp_ms=now_ms - 3_600_000)
    send(topic, 1, ["y", "z"], timestamp_ms=now_ms - 60_000)
    send(topic, 2, ["x"], timestamp_ms=now_ms + 1_800_000)
    send(topic, 4, ["x"])

    # When a group has read none of the first, one of the second, all of the fourth
    groups.alter(group, {(topic, 0): 0, (topic, 1): 1, (topic, 2): 0, (topic, 3): 0, (topic, 4): 1})
    described = _described(streamctl, group)
    shown = streamctl.well("group", "describe", group)

    # Then the age of the oldest record that it has not read is known for each
    lags = {at["partition"]: (at["lag"], at["lag_seconds"]) for at in described["partitions"]}
    assert lags[0] == (3, _ago(3600, now_ms=now_ms))
    assert lags[1] == (2, _ago(60, now_ms=now_ms))
    assert lags[2] == (1, 0)
    assert lags[3] == (0, 0)
    assert lags[4] == (0, 0)
    assert lags[5] == lags[6] == (None, None)
    assert _partition(described, 5)["committed_offset"] is None
    assert [topic, "5", "-", "0", "-", "-", "-", "-"] in [line.split() for line in shown.lines]
    assert ", lag 6 " in shown.lines[0]


def test_lag_is_exact_deep_in_a_log_of_large_batches(
    streamctl: Streamctl, send: Send, groups: Groups, topic: str, group: str
) -> None:
    # Given batches far larger than what is fetched for one look, in all partitions
    now_ms = time.time_ns() // 1_000_000
    for partition in range(7):
        send(topic, partition, ["x" * 10_000] * 90, timestamp_ms=now_ms - 7_200_000)
        send(topic, partition, ["x" * 10_000] * 30, timestamp_ms=now_ms - 600_000)

    # When the group stands inside of one of them
    groups.alter(group, {(topic, partition): 80 + partition * 3 for partition in range(7)})
    described = _described(streamctl, group)

    # Then each look found its record
    for at in described["partitions"]:
        old = at["committed_offset"] < 90
        assert at["lag_seconds"] == _ago(7200 if old else 600, now_ms=now_ms), at


def test_offsets_of_a_topic_that_is_gone_are_no_obstacle(
    streamctl: Streamctl, groups: Groups, cluster: Cluster, topic: str, group: str
) -> None:
    groups.alter(group, {(topic, 0): 0})
    create_topic(cluster, f"{topic}-gone", partitions=1)
    groups.alter(group, {(f"{topic}-gone", 0): 0})
    cluster.delete_topic(f"{topic}-gone")
    described = _described(streamctl, group)
    assert _partition(described, 1)["committed_offset"] is None
    plan = streamctl.well("group", "reset", group, "--all-topics", "--to-latest", "--execute")
    assert f"reset group {group}: 1 partition" in plan.lines[-1]


def test_a_group_with_members_is_neither_reset_nor_deleted(
    streamctl: Streamctl, topic: str, group: str
) -> None:
    # Given a group at work
    member = _member(streamctl, topic, group, "-X", "client.id=busy")

    # When somebody wants it elsewhere, or gone
    reset = streamctl("group", "reset", group, "--topic", topic, "--to-earliest", "--execute")
    deleted = streamctl("group", "delete", group, "--yes")
    member.interrupt()

    # Then they learn who has to stop first
    for refused in (reset, deleted):
        assert refused.exit_code == 1
        assert refused.text == ""
        error, fix = refused.err.splitlines()
        assert f"group '{group}' has members: busy at 127.0.0.1" in error
        assert "stop them first" in fix
    assert streamctl.well("group", "delete", group, "--yes").text == f"✓ deleted group {group}\n"


def test_members_that_come_meanwhile_are_told_by_the_broker(
    streamctl: Streamctl, groups: Groups, topic: str, group: str
) -> None:
    member = _member(streamctl, topic, group, "-X", "client.id=busy")
    with pytest.raises(GroupInUse, match="busy at 127"):
        groups.alter(group, {(topic, 0): 0})
    with pytest.raises(GroupInUse, match="busy at 127"):
        groups.delete(group)
    member.interrupt()
    groups.delete(group)
    with pytest.raises(UnknownGroup):
        groups.delete(group)


def test_several_groups_go_at_once_but_not_unasked(
    streamctl: Streamctl, groups: Groups, topic: str, group: str
) -> None:
    # Given two groups
    names = [group, f"{group}-b"]
    for name in names:
        groups.alter(name, {(topic, 0): 0})

    # When they are deleted with one that is not there, without a yes, and with one
    unknown = streamctl("group", "delete", *names, f"{group}-c", "--yes")
    unasked = streamctl("group", "delete", *names)
    assert sorted(groups.states(names)) == names
    deleted = streamctl.well("group", "delete", *names, "--yes")

    # Then only the last try did it
    assert unknown.exit_code == 1
    assert f"group '{group}-c' does not exist" in unknown.err
    assert unasked.exit_code == 2
    assert "--yes" in unasked.err
    assert [line.split()[-1] for line in deleted.lines] == names
    assert groups.states(names) == {}


def test_what_is_not_there_is_named(
    streamctl: Streamctl, groups: Groups, topic: str, group: str
) -> None:
    groups.alter(group, {(topic, 0): 0})
    near = streamctl("group", "describe", group[:-1])
    assert near.exit_code == 1
    assert f"did you mean {group}?" in near.err
    reset = ("group", "reset", group)
    unknown = streamctl(*reset, "--topic", topic[:-1], "--to-latest")
    assert unknown.exit_code == 1
    assert f"did you mean {topic}?" in unknown.err
    missing = streamctl(*reset, "--topic", f"{topic}:3,9", "--to-latest")
    assert missing.exit_code == 1
    assert "no partition 9" in missing.err
    unplaced = streamctl(*reset, "--topic", topic, "--shift-by", "1")
    assert unplaced.exit_code == 1
    assert f"no offset in {topic}[1]" in unplaced.err
    nowhere = streamctl("group", "reset", f"{group}x", "--all-topics", "--to-latest")
    assert nowhere.exit_code == 1
    assert "--topic NAME" in nowhere.err


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("describe",), "NAME"),
        (("delete",), "NAME"),
        (("describe", ""), "a group has a name"),
        (("delete", "g", "", "--yes"), "a group has a name"),
        (("reset", "", "--topic", "t", "--to-earliest"), "a group has a name"),
        (("reset", "g", "--topic", "", "--to-earliest"), "cannot be a topic's name"),
        (("reset", "g", "--topic", "a b:0", "--to-earliest"), "use letters, digits"),
        (("reset", "g", "--topic", "t"), "--to-earliest, --to-latest, --to-offset"),
        (("reset", "g", "--topic", "t", "--to-latest", "--shift-by", "0"), "exclude each other"),
        (("reset", "g", "--to-latest"), "--all-topics"),
        (("reset", "g", "--to-latest", "--topic", "t", "--all-topics"), "say which topics"),
        (("reset", "g", "--to-latest", "--topic", "t:x"), "orders:0,1,2"),
        (("reset", "g", "--to-latest", "--topic", "t:"), "orders:0,1,2"),
        (("reset", "g", "--topic", "t", "--to-offset", "-1"), "--to-latest goes to the end"),
        (("reset", "g", "--topic", "t", "--to-timestamp", "noon"), "2025-01-31T12:00:00Z"),
        (("reset", "g", "--topic", "t", "--by-duration", "5"), "no unit"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_with_advice(
    run_here: Callable[..., Ended], arguments: tuple[str, ...], advice: str
) -> None:
    refused = run_here("group", *arguments)
    assert refused.exit_code == 2
    assert advice in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_list_of_groups_that_is_not_whole_is_a_failure(
    run_here: Callable[..., Ended], bootstrap: str, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    # Given a broker that does not tell its groups
    complete = Groups.listing
    monkeypatch.setattr(Groups, "listing", lambda self: (complete(self)[0], ["broker 7 is away"]))

    # When groups are listed, then what is known is shown, and what is not known is no success
    ended = run_here("group", "list", "--bootstrap", bootstrap, "--format", output)
    assert "not all groups are shown: broker 7 is away" in ended.err
    assert ended.exit_code == 1
