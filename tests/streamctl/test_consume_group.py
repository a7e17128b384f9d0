"""Members of a group share a topic, and the group remembers what they have shown."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from streamctl.groups import Groups
from tests.streamctl.conftest import FINISH_S, Running, Streamctl, wait_until
from tests.streamctl.forks import Ended

Send = Callable[..., None]

PROTOCOLS = ("classic", "consumer")  # KIP-848 is the second
RAW = ("--format", "raw")
# of members that are killed: each second is waited for, but a busy machine may keep them for some
SHORT_SESSION = ("-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500")


def _values(partition: int, count: int, *, padding: int = 0) -> list[str]:
    return [f"{partition}/{number}{' ' * padding}" for number in range(count)]


def _read(streamctl: Streamctl, topic: str, group: str, *options: str) -> Ended:
    return streamctl.well("consume", "--topic", topic, "--group", group, *RAW, *options)


def _start(streamctl: Streamctl, topic: str, group: str, *options: str) -> Running:
    member = streamctl.start("consume", "--topic", topic, "--group", group, *RAW, *options)
    member.wait_for_note("Ctrl-C ends")
    return member


def _records_committed(groups: Groups, group: str) -> int:
    """Return how many records lie before the group's offsets, in logs that start at 0."""
    return sum(groups.committed(group).values())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("commits", [(), ("--auto-commit",)])
def test_a_limit_commits_exactly_what_was_shown(
    streamctl: Streamctl,
    send: Send,
    groups: Groups,
    topic: str,
    group: str,
    protocol: str,
    commits: tuple[str, ...],
) -> None:
    # Given more records than one batch holds
    send(topic, 0, _values(0, 900))
    send(topic, 3, _values(3, 700))
    options = ("-X", f"group.protocol={protocol}", *commits)

    # When a member reads some, and a later one the rest
    first = _read(streamctl, topic, group, "--from-beginning", "--limit", "1003", *options)
    committed = _records_committed(groups, group)
    rest = _read(streamctl, topic, group, "--exit-at-end", *options)

    # Then the group knew exactly what the first had shown, and each record was shown once
    assert len(first.lines) == 1003
    assert committed == 1003
    assert "1,003 messages read" in first.err
    shown = first.lines + rest.lines
    for partition, count in ((0, 900), (3, 700)):
        ours = [line for line in shown if line.startswith(f"{partition}/")]
        assert ours == [f"{partition}/{number}" for number in range(count)]
    assert _records_committed(groups, group) == 1600


def test_a_new_group_starts_at_the_end_and_stays_there(
    streamctl: Streamctl, send: Send, topic: str, group: str
) -> None:
    # Given a group that has only just found its place at the end of a topic
    send(topic, 1, _values(1, 3))
    _start(streamctl, topic, group, *SHORT_SESSION).kill()

    # When records come while it has no member
    send(topic, 1, ["new"])
    read = _read(streamctl, topic, group, "--limit", "1")

    # Then its next member misses none of them, though nothing was ever read before
    assert read.lines == ["new"]


def test_what_a_transaction_writes_that_is_open_comes_once_it_is_committed(
    streamctl: Streamctl, send: Send, topic: str, group: str
) -> None:
    # Given a record, and one of a transaction that is open
    send(topic, 1, ["before"])
    producer = Producer(
        {
            "bootstrap.servers": streamctl.bootstrap,
            "transactional.id": f"of-{topic}",
            "transaction.timeout.ms": 2 * FINISH_S * 1000,  # it is open while commands run
        }
    )
    producer.init_transactions(FINISH_S)
    producer.begin_transaction()
    producer.produce(topic, "late", partition=1)
    assert producer.flush(FINISH_S) == 0

    # When a new group finds its place at the end, and it is committed then
    assert _read(streamctl, topic, group, "--exit-at-end").lines == []
    last = ("consume", "--topic", topic, *RAW, "--offset", "-1", "--exit-at-end")
    committed = streamctl.well(*last, "-X", "isolation.level= read_committed")  # it takes blanks
    all_there_is = streamctl.well(*last, "-X", "isolation.level=read_uncommitted")
    producer.commit_transaction(FINISH_S)

    # Then the group reads it, and the last record was what each reader can read
    assert _read(streamctl, topic, group, "--exit-at-end").lines == ["late"]
    assert (committed.lines, all_there_is.lines) == (["before"], ["late"])


@pytest.mark.parametrize("commits", [(), ("--auto-commit",)])
def test_ctrl_c_commits_and_leaves(
    streamctl: Streamctl,
    send: Send,
    groups: Groups,
    topic: str,
    group: str,
    commits: tuple[str, ...],
) -> None:
    member = _start(streamctl, topic, group, *commits)
    send(topic, 2, _values(2, 3))
    assert [member.read_line() for _ in range(3)] == ["2/0", "2/1", "2/2"]
    ended = member.interrupt()
    assert ended.exit_code == 130
    assert ended.err.splitlines()[-1] == f"3 messages read from {topic}"
    assert "Traceback" not in ended.err
    assert groups.committed(group)[topic, 2] == 3
    assert groups.states([group])[group].state == "Empty"


def test_sigterm_commits_and_leaves(
    streamctl: Streamctl, send: Send, groups: Groups, topic: str, group: str
) -> None:
    member = _start(streamctl, topic, group, "--auto-commit")
    send(topic, 2, _values(2, 2))
    assert [member.read_line(), member.read_line()] == ["2/0", "2/1"]
    ended = member.terminate()
    assert ended.exit_code == 143
    assert "Traceback" not in ended.err
    assert groups.committed(group)[topic, 2] == 2
    assert groups.states([group])[group].state == "Empty"


def test_auto_commit_does_not_wait_for_the_end(
    streamctl: Streamctl, send: Send, groups: Groups, topic: str, group: str
) -> None:
    # Given a member that has shown a record and sits idle
    member = _start(streamctl, topic, group, "--auto-commit", *SHORT_SESSION)
    send(topic, 4, _values(4, 1))
    assert member.read_line() == "4/0"

    # When some seconds pass, then the offset is there, and a crash repeats nothing
    wait_until(lambda: groups.committed(group).get((topic, 4)) == 1, "the commit")
    member.kill()
    assert groups.committed(group)[topic, 4] == 1


def test_a_crash_skips_nothing_and_repeats_one_batch_at_most(
    streamctl: Streamctl, send: Send, groups: Groups, topic: str, group: str
) -> None:
    # Given a member that is killed while the reader of its output lags behind
    send(topic, 0, _values(0, 3000, padding=300))
    member = streamctl.start(
        *("consume", "--topic", topic, "--group", group, "--from-beginning", *RAW),
        *SHORT_SESSION,
    )
    member.wait_for_note("Ctrl-C ends")
    read = [member.read_line() for _ in range(900)]
    crashed = member.kill()

    # When the next one reads the rest
    shown = len(read) + crashed.out.count(b"\n")  # a part of a line may have come last
    rest = [line.rstrip() for line in _read(streamctl, topic, group, "--exit-at-end").lines]

    # Then it goes on at a record that had been shown, one batch back at most. (A commit that was
    # under way when the first one was killed may count since.)
    committed = int(rest[0].removeprefix("0/"))
    assert shown - 500 <= committed <= shown
    assert rest == [f"0/{number}" for number in range(committed, 3000)]
    assert groups.committed(group)[topic, 0] == 3000


@pytest.mark.parametrize("commits", [(), ("--auto-commit",)])
def test_a_broken_pipe_commits_nothing_that_was_not_written(
    streamctl: Streamctl,
    send: Send,
    groups: Groups,
    topic: str,
    group: str,
    commits: tuple[str, ...],
) -> None:
    # Given a member that has much more to show than a pipe holds
    send(topic, 0, _values(0, 3000, padding=300))
    member = _start(streamctl, topic, group, "--from-beginning", *commits)

    # When its reader goes away after the first line
    assert member.read_line().rstrip() == "0/0"
    ended = member.stop_reading()

    # Then it ended well, having committed at most what the pipe can have taken
    assert ended.exit_code == 0, ended.err
    assert "Traceback" not in ended.err
    assert groups.states([group])[group].state == "Empty"
    committed = groups.committed(group)[topic, 0]
    assert committed < 1000
    rest = _read(streamctl, topic, group, "--exit-at-end")
    assert rest.lines[0].rstrip() == f"0/{committed}"
    assert len(rest.lines) == 3000 - committed


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_members_share_the_partitions(
    streamctl: Streamctl, send: Send, groups: Groups, topic: str, group: str, protocol: str
) -> None:
    # Given two members of one group, which together own all seven partitions
    options = ("-X", f"group.protocol={protocol}")
    members = [_start(streamctl, topic, group, *options) for _ in range(2)]

    def settled() -> bool:
        state = groups.states([group])[group]
        counts = sorted(len(member.partitions) for member in state.members)
        return state.state == "Stable" and counts == [3, 4]

    wait_until(settled, "a share for each")

    # When every partition gets a record
    for partition in range(7):
        send(topic, partition, _values(partition, 1))
    wait_until(lambda: _records_committed(groups, group) == 7, "all commits")

    # Then one of the two has shown it
    ended = [member.interrupt() for member in members]
    assert sorted(ended[0].lines + ended[1].lines) == [f"{partition}/0" for partition in range(7)]
    assert all(len(one.lines) in {3, 4} for one in ended)


def test_a_quiet_topic_ends_a_member_with_a_timeout(
    streamctl: Streamctl, groups: Groups, topic: str, group: str
) -> None:
    assert _read(streamctl, topic, group, "--timeout", "300ms").lines == []
    assert groups.states([group])[group].state == "Empty"
