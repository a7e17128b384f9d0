"""A group's offsets go where people say, inside of the log, and only with --execute."""

import json
from collections.abc import Callable

import pytest

from streamctl.groups import Groups
from tests.streamctl.conftest import Streamctl

Send = Callable[..., None]

BASE_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("--to-earliest",), (0, 0)),
        (("--to-latest",), (10, 4)),
        (("--to-offset", "3"), (3, 3)),
        (("--to-offset", "7"), (7, 4)),
        (("--shift-by", "2"), (7, 4)),
        (("--shift-by", "-4"), (1, 0)),
        (("--shift-by", "-100"), (0, 0)),
        (("--to-timestamp", str(BASE_MS + 2500)), (3, 3)),
        (("--to-timestamp", "2023-11-14T22:13:28"), (8, 4)),
        (("--to-timestamp", "2023-11-15T00:13:22+02:00"), (2, 2)),
        (("--to-timestamp", "2035-01-01"), (10, 4)),
        (("--by-duration", "1h30m"), (10, 4)),
        (("--by-duration", "2000w"), (0, 0)),
    ],
)
def test_a_group_is_reset_when_told_to_and_only_planned_before(
    streamctl: Streamctl,
    send: Send,
    groups: Groups,
    topic: str,
    group: str,
    target: tuple[str, ...],
    expected: tuple[int, int],
) -> None:
    # Given a record a second in two partitions, and a group inside of them
    for number in range(10):
        send(topic, 0, ["x"], timestamp_ms=BASE_MS + number * 1000)
    for number in range(4):
        send(topic, 5, ["x"], timestamp_ms=BASE_MS + number * 1000)
    before = {(topic, 0): 5, (topic, 5): 2}
    groups.alter(group, before)
    reset = ("group", "reset", group, "--topic", f"{topic}:0,5", *target)

    # When a plan is asked for
    plan = json.loads(streamctl.well(*reset, "--format", "json").text)

    # Then it says what would become of each offset, and nothing has changed
    assert plan["executed"] is False
    offsets = [(at["partition"], at["old_offset"], at["new_offset"]) for at in plan["offsets"]]
    assert offsets == [(0, 5, expected[0]), (5, 2, expected[1])]
    assert groups.committed(group) == before

    # When it is executed, then it is as planned
    streamctl.well(*reset, "--execute")
    assert groups.committed(group) == {(topic, 0): expected[0], (topic, 5): expected[1]}


def test_a_plan_reads_well(
    streamctl: Streamctl, send: Send, groups: Groups, topic: str, group: str
) -> None:
    send(topic, 0, ["x"])
    groups.alter(group, {(topic, 0): 1})
    planned = streamctl.well("group", "reset", group, "--topic", topic, "--to-offset", "1")
    assert planned.lines[0].split() == ["TOPIC", "PARTITION", "OLD", "OFFSET", "NEW", "OFFSET"]
    assert planned.lines[1].split() == [topic, "0", "1", "->", "1"]
    assert planned.lines[7].split() == [topic, "6", "-", "->", "0"]
    assert "6 offsets outside of the log" in planned.err
    assert planned.err.splitlines()[-1] == "nothing changed; add --execute"


def test_a_group_can_be_placed_before_its_first_member_comes(
    streamctl: Streamctl, send: Send, groups: Groups, topic: str, group: str
) -> None:
    send(topic, 2, ["a", "b", "c"])
    place = ("group", "reset", group, "--topic", f"{topic}:2", "--to-offset", "2")
    assert f"group {group} does not exist yet" in streamctl.well(*place).err
    assert groups.states([group]) == {}
    assert "1 partition" in streamctl.well(*place, "--execute").text
    read = streamctl.well(
        *("consume", "--topic", topic, "--group", group, "--limit", "1", "--format", "raw")
    )
    assert read.lines == ["c"]
