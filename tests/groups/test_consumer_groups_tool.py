"""kafka-consumer-groups: what it prints of live and empty groups, and what it does to them.

A classic group and one of KIP-848 stand side by side in every call.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.clients.confluent import Confluent
from tests.clients.shared_java_tools import shared_java_tools
from tests.groups.asking import committed
from tests.groups.both_types import BEFORE, COUNT, Groups, new_groups
from tests.groups.consumer_groups_tool import ConsumerGroupsTool, Row
from tests.groups.members import running_members
from tests.oracle.tool_runner import ToolRunner


@pytest.fixture(scope="module")
def tool(bootstrap: str, tool_runner: ToolRunner) -> ConsumerGroupsTool:
    return ConsumerGroupsTool(tools=shared_java_tools(bootstrap, tool_runner))


@pytest.fixture(scope="module")
def live(
    bootstrap: str, confluent: Confluent, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Groups]:
    """Groups whose members go on running."""
    with running_members(bootstrap, tmp_path_factory.mktemp("live")) as members:
        yield new_groups(members, confluent)


@pytest.fixture
def empty(bootstrap: str, confluent: Confluent, tmp_path: Path) -> Groups:
    """Groups whose members have left, of this test alone."""
    with running_members(bootstrap, tmp_path) as members:
        groups = new_groups(members, confluent)
        members.stop()
    return groups


def values(rows: list[Row], column: str) -> dict[str, str]:
    """Return one column of a table with one row for each group."""
    found = {row["GROUP"]: row[column] for row in rows}
    assert len(found) == len(rows), rows
    return found


def test_groups_are_listed_with_their_states_and_types(
    tool: ConsumerGroupsTool, live: Groups, empty: Groups
) -> None:
    with ThreadPoolExecutor(2) as threads:
        names, states, types, stable, consumers = threads.map(
            lambda arguments: tool("--list", *arguments),
            ((), ("--state",), ("--type",), ("--state", "stable"), ("--type", "consumer")),
        )

    ours = {live.classic, live.consumer, empty.classic, empty.consumer}
    assert ours <= set(names.text.splitlines())
    assert (
        values(states.rows, "STATE").items()
        >= {
            live.classic: "Stable",
            live.consumer: "Stable",
            empty.classic: "Empty",
            empty.consumer: "Empty",
        }.items()
    )
    assert (
        values(types.rows, "TYPE").items()
        >= {
            live.classic: "Classic",
            live.consumer: "Consumer",
            empty.classic: "Classic",
            empty.consumer: "Consumer",
        }.items()
    )
    assert values(stable.rows, "STATE").keys() & ours == {live.classic, live.consumer}
    assert values(consumers.rows, "TYPE").keys() & ours == {live.consumer, empty.consumer}


def test_live_groups_are_described(tool: ConsumerGroupsTool, live: Groups) -> None:
    with ThreadPoolExecutor(2) as threads:
        offsets, members, state = threads.map(
            lambda arguments: tool("--describe", *live.named, *arguments),
            (("--offsets",), ("--members", "--verbose"), ("--state", "--verbose")),
        )

    for group in (live.classic, live.consumer):
        # Then every partition is there with its offsets, its lag and its owner
        (partition,) = offsets.of(group)
        (member,) = members.of(group)
        client = {"CLIENT-ID": f"client-of-{group}", "HOST": "/127.0.0.1"}
        assert partition.items() >= client.items()
        assert member.items() >= client.items()
        assert partition["CONSUMER-ID"] == member["CONSUMER-ID"]
        assert (
            partition.items()
            >= {
                "TOPIC": live.topic,
                "PARTITION": "0",
                "CURRENT-OFFSET": f"{COUNT}",
                "LOG-END-OFFSET": f"{COUNT}",
                "LAG": "0",
            }.items()
        )
        # and every member with its assignment
        assert member["#PARTITIONS"] == "1"
        assert member["CURRENT-ASSIGNMENT"] == f"{live.topic}:0"
        (found,) = state.of(group)
        assert found["STATE"] == "Stable"
        assert found["#MEMBERS"] == "1"
        assert found["COORDINATOR(ID)"].startswith(tool.tools.bootstrap)
    # And a group of KIP-848 has epochs, and the name of the broker's assignor
    assert members.of(live.classic)[0]["TARGET-ASSIGNMENT"] == "-"
    assert members.of(live.consumer)[0]["TARGET-ASSIGNMENT"] == f"{live.topic}:0"
    assert values(state.rows, "ASSIGNMENT-STRATEGY") == {
        live.classic: "range",
        live.consumer: "uniform",
    }
    epoch = members.of(live.consumer)[0]["CURRENT-EPOCH"]
    assert int(epoch) > 0
    assert state.of(live.consumer)[0]["GROUP-EPOCH"] == epoch
    assert state.of(live.consumer)[0]["TARGET-ASSIGNMENT-EPOCH"] == epoch


def test_all_groups_are_described_and_unknown_ones_named(
    tool: ConsumerGroupsTool, live: Groups, empty: Groups
) -> None:
    with ThreadPoolExecutor(2) as threads:
        states, offsets, unknown = threads.map(
            lambda arguments: tool("--describe", *arguments),
            (("--all-groups", "--state"), ("--all-groups",), ("--group", f"{live.topic}-no")),
        )

    assert (
        values(states.rows, "STATE").items()
        >= {
            live.classic: "Stable",
            empty.consumer: "Empty",
        }.items()
    )
    for group in (empty.classic, empty.consumer):
        (partition,) = offsets.of(group)
        assert partition["CURRENT-OFFSET"] == f"{COUNT}"
        assert partition["CONSUMER-ID"] == "-"
    assert f"Group {live.topic}-no not found" in unknown.text


def test_offsets_of_empty_groups_are_reset(tool: ConsumerGroupsTool, empty: Groups) -> None:
    bootstrap = tool.tools.bootstrap
    both = (empty.classic, empty.consumer)

    def reset(*arguments: str) -> dict[str, str]:
        return values(tool("--reset-offsets", *empty.on_topic, *arguments).rows, "NEW-OFFSET")

    # When it is not said to execute, then nothing is changed
    assert reset("--to-earliest", "--dry-run") == dict.fromkeys(both, "0")
    assert [committed(bootstrap, group) for group in both] == [{0: COUNT}] * 2

    # When it is, then the offsets are those that were asked for
    five_minutes_in = BEFORE + timedelta(minutes=5)
    for wanted, offset in (
        (("--to-earliest",), 0),
        (("--to-latest",), COUNT),
        (("--to-offset", "7"), 7),
        (("--shift-by", "-3"), 4),
        (("--to-datetime", f"{five_minutes_in:%Y-%m-%dT%H:%M:%S}.{_ms(five_minutes_in)}"), 5),
        (("--by-duration", "P30D"), 0),
    ):
        assert reset(*wanted, "--execute") == dict.fromkeys(both, f"{offset}"), wanted
        assert [committed(bootstrap, group) for group in both] == [{0: offset}] * 2, wanted


def _ms(time: datetime) -> str:
    return f"{time.microsecond // 1000:03d}"


def test_live_groups_are_left_alone(tool: ConsumerGroupsTool, live: Groups) -> None:
    with ThreadPoolExecutor(2) as threads:
        reset, deletion, classic, consumer = threads.map(
            lambda arguments: tool(*arguments),
            (
                ("--reset-offsets", *live.on_topic, "--to-earliest", "--execute"),
                ("--delete", *live.named),
                ("--delete-offsets", "--group", live.classic, "--topic", live.topic),
                ("--delete-offsets", "--group", live.consumer, "--topic", live.topic),
            ),
        )

    for group in (live.classic, live.consumer):
        assert f"if the group '{group}' is inactive, but the current state is Stable" in reset.text
        assert f"Group '{group}' could not be deleted due to" in deletion.text
        assert committed(tool.tools.bootstrap, group) == {0: COUNT}
    assert deletion.text.count("GroupNotEmptyException") == 2
    for refused in (classic, consumer):
        (row,) = refused.rows
        assert row["TOPIC"] == live.topic
        assert "GroupSubscribedToTopicException" in row["STATUS"]


def test_offsets_of_empty_groups_are_deleted_and_then_the_groups(
    tool: ConsumerGroupsTool, empty: Groups
) -> None:
    both = (empty.classic, empty.consumer)
    # When offsets are deleted
    for group in both:
        (row,) = tool("--delete-offsets", "--group", group, "--topic", empty.topic).rows
        assert row == {"TOPIC": empty.topic, "PARTITION": "0", "STATUS": "Successful"}
        # Then the group has none
        assert committed(tool.tools.bootstrap, group) == {}

    # When the groups are deleted, one that is not there included
    deleted = tool("--delete", *empty.named, "--group", f"{empty.topic}-no")
    # Then those two are gone
    assert deleted.text.count("GroupIdNotFoundException") == 1
    assert f"Group '{empty.topic}-no' could not be deleted" in deleted.text
    names = tool("--list").text.splitlines()
    assert not set(both) & set(names)
