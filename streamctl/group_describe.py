"""streamctl group describe: where a group is in each partition, how far behind, and who reads."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from rich.text import Text

from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.group_lag import READ_TIMEOUT_S, lag_seconds, oldest_unread
from streamctl.group_state import GroupState, Member, PartitionName
from streamctl.groups import Groups
from streamctl.names import GroupArguments, check_group_names
from streamctl.options import FormatOption, connected, flag
from streamctl.output import UNKNOWN, Format, Json, counted, note, print_json, results, table
from streamctl.printable import printable_text

_STATE_STYLES = {"Stable": "green", "Empty": "dim", "Dead": "red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How far a group has come in one partition.

    Attributes:
        committed: the next offset to read; None if the group never committed one.
        log_end: one past the last record that can be read; None if the partition is gone.
        lag: log_end - committed, in records; below 0 if the log is shorter than once read.
        lag_s: how long ago the oldest unread record was produced; None if that is unknown.
        owner: the member that reads it.
    """

    topic: str
    partition: int
    committed: int | None
    log_end: int | None
    lag: int | None
    lag_s: float | None
    owner: Member | None


@connected
def describe(
    connection: Connection,
    *,
    names: GroupArguments,
    members: Annotated[bool, flag("--members", text="Show the members, too.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    r"""Show how far groups have read, in records and in seconds, and who reads what.

    LOG END is one past the last record that can be read. LAG counts the records up to
    there. LAG SECONDS is the age of the oldest record that the group has not read, looked
    up in the log. A dash is a partition where the group has committed nothing, or a figure
    that nobody tells.

    Examples:
      streamctl group describe analytics
      streamctl group describe analytics --members
      streamctl group describe analytics --format json \
          | jq '[.[].partitions[].lag] | add'
    """
    check_group_names(names)
    cluster = Cluster(connection)
    cluster.identity()
    groups = Groups(cluster.requests)
    described = [
        (group, _lags(cluster, groups, group)) for group in groups.existing(dict.fromkeys(names))
    ]
    if output is Format.JSON:
        print_json([_as_json(group, lags) for group, lags in described])
    else:
        for group, lags in described:
            _print(group, lags)
            if members:
                _print_members(group)


def state_cell(state: str | None) -> Text:
    """Return a group's state in its colour."""
    return UNKNOWN if state is None else Text(state, style=_STATE_STYLES.get(state, "yellow"))


def _lags(cluster: Cluster, groups: Groups, group: GroupState) -> list[PartitionLag]:
    """Return all partitions of the topics that the group reads or once read."""
    committed = groups.committed(group.group_id)
    owners = {at: member for member in group.members for at in member.partitions}
    ends = _log_ends(cluster, {topic for topic, _ in [*committed, *owners]})
    behind = {at: offset for at, offset in committed.items() if at in ends and ends[at] > offset}
    unread = oldest_unread(cluster.requests.connection, behind)
    for topic, index in behind.keys() - unread.keys():
        note(f"{topic}[{index}]: no record was read within {READ_TIMEOUT_S:g} s")
    for found in unread.values():
        if found.refusal:
            note(found.refusal)
    now_ms = time.time_ns() // 1_000_000  # after reading: what is unread has been produced
    lags = []
    for at in sorted({*committed, *owners, *ends}):
        end, offset = ends.get(at), committed.get(at)
        lag = None if end is None or offset is None else end - offset
        lags.append(
            PartitionLag(
                topic=at[0],
                partition=at[1],
                committed=offset,
                log_end=end,
                lag=lag,
                lag_s=0.0 if lag == 0 else lag_seconds(unread.get(at), now_ms=now_ms),
                owner=owners.get(at),
            )
        )
    return lags


def _log_ends(cluster: Cluster, topics: Iterable[str]) -> dict[PartitionName, int]:
    present = sorted(set(topics) & set(cluster.topic_names()))  # offsets may outlive a topic
    ends = {}
    for topic in cluster.topics(present, may_be_gone=True):
        latest = cluster.latest_offsets(topic.name, [at.index for at in topic.partitions])
        ends.update({(topic.name, index): end for index, end in latest.items()})
    return ends


def _as_json(group: GroupState, lags: Iterable[PartitionLag]) -> Json:
    coordinator = group.coordinator
    return {
        "group_id": group.group_id,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": None
        if coordinator is None
        else {
            "node_id": coordinator.node_id,
            "host": coordinator.host,
            "port": coordinator.port,
        },
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": [
                    {"topic": topic, "partition": index} for topic, index in member.partitions
                ],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": lag.topic,
                "partition": lag.partition,
                "committed_offset": lag.committed,
                "log_end_offset": lag.log_end,
                "lag": lag.lag,
                "lag_seconds": lag.lag_s,
                "member_id": None if lag.owner is None else lag.owner.member_id,
                "client_id": None if lag.owner is None else lag.owner.client_id,
                "host": None if lag.owner is None else lag.owner.host,
            }
            for lag in lags
        ],
    }


def _print(group: GroupState, lags: list[PartitionLag]) -> None:
    console, coordinator = results(), group.coordinator
    lag = sum(lag.lag for lag in lags if lag.lag and lag.lag > 0)
    heading = Text.assemble((printable_text(group.group_id), "bold"), "  ")
    heading.append(state_cell(group.state))
    heading.append(
        f"  {group.type}, {counted(len(group.members), 'member')}, "
        f"assignor {printable_text(group.assignor) if group.assignor else '-'}, lag {lag:,}"
    )
    if coordinator is not None:
        heading.append(
            f"  coordinator {coordinator.node_id} at {coordinator.host}:{coordinator.port}",
            style="dim",
        )
    console.print(heading)
    numbers = ("PARTITION", "COMMITTED", "LOG END", "LAG", "LAG SECONDS")
    listing = table("TOPIC", *numbers, "CLIENT", "HOST", numbers=numbers)
    for at in lags:
        listing.add_row(*_cells(at))
    console.print(listing)


def _cells(at: PartitionLag) -> list[Text]:
    style = "green" if at.lag == 0 else "red" if at.lag is not None and at.lag < 0 else "yellow"
    return [
        Text(at.topic),
        Text(str(at.partition), style="cyan"),
        _number(at.committed),
        _number(at.log_end),
        _number(at.lag, style=style),
        UNKNOWN if at.lag_s is None else Text(f"{at.lag_s:.1f}" if at.lag_s else "0", style=style),
        Text(printable_text(at.owner.client_id)) if at.owner else UNKNOWN,
        Text(printable_text(at.owner.host)) if at.owner else UNKNOWN,
    ]


def _number(value: int | None, *, style: str = "") -> Text:
    return UNKNOWN if value is None else Text(str(value), style=style)


def _print_members(group: GroupState) -> None:
    if not group.members:
        results().print(Text("no members", style="dim"))
        return
    listing = table("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS")
    for member in group.members:
        topics: dict[str, list[str]] = {}
        for topic, index in member.partitions:
            topics.setdefault(topic, []).append(str(index))
        listing.add_row(
            Text(printable_text(member.member_id)),
            Text(printable_text(member.instance_id)) if member.instance_id else UNKNOWN,
            Text(printable_text(member.client_id)),
            Text(printable_text(member.host)),
            Text(" ".join(f"{topic}[{','.join(held)}]" for topic, held in topics.items()))
            if topics
            else UNKNOWN,
        )
    results().print(listing)
