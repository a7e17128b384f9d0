"""streamctl group reset: move a group's offsets; shows a plan, and does it when told to."""

import time
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer
from rich.text import Text

from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.errors import Failure, UsageError
from streamctl.group_state import PartitionName
from streamctl.groups import GroupInUse, Groups
from streamctl.names import check_group_names, complete_groups
from streamctl.offset_targets import (
    OffsetChange,
    Target,
    TargetKind,
    changes,
    one_target,
    parse_topic,
)
from streamctl.options import FormatOption, connected, duration_ms, flag, timestamp_ms
from streamctl.output import (
    UNKNOWN,
    Format,
    counted,
    note,
    print_done,
    print_json,
    results,
    table,
)
from streamctl.printable import iso_time
from streamctl.units import DURATION_EXAMPLES, TIME_EXAMPLES

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", show_default=False, autocompletion=complete_groups, help="The group."
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC[:0,1,2]", help="All or some partitions of it. Repeatable."
    ),
]
AllTopics = Annotated[bool, flag("--all-topics", text="Wherever the group has an offset.")]
ToEarliest = Annotated[bool, flag("--to-earliest", text="To the log start.")]
ToLatest = Annotated[bool, flag("--to-latest", text="To the end: skip what is there.")]
ToOffset = Annotated[int | None, typer.Option("--to-offset", metavar="N", help="To this offset.")]
ToTimestamp = Annotated[
    int | None,
    typer.Option(
        "--to-timestamp",
        parser=timestamp_ms,
        metavar="TIME",
        help=f"To the first record not older ({TIME_EXAMPLES}; UTC unless it says).",
    ),
]
ByDuration = Annotated[
    int | None,
    typer.Option(
        "--by-duration",
        parser=duration_ms,
        metavar="DURATION",
        help=f"To the first record not older than so long ago ({DURATION_EXAMPLES}).",
    ),
]
ShiftBy = Annotated[
    int | None, typer.Option("--shift-by", metavar="N", help="N records on, or back with -N.")
]
Execute = Annotated[bool, flag("--execute", text="Do it. Without it nothing changes.")]


@connected
def reset(
    connection: Connection,
    *,
    name: Name,
    topic: Topics = None,
    all_topics: AllTopics = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_offset: ToOffset = None,
    to_timestamp: ToTimestamp = None,
    by_duration: ByDuration = None,
    shift_by: ShiftBy = None,
    execute: Execute = False,
    output: FormatOption = Format.TABLE,
) -> None:
    r"""Move the committed offsets of a group: read again, or skip.

    Shows what would change; --execute changes it. The group must have no members: stop its
    consumers first. An offset outside of the log becomes the nearest one inside; a time
    after the last record becomes the end. A group that does not exist is made.

    Examples:
      streamctl group reset analytics --topic user-events --to-earliest
      streamctl group reset analytics --topic user-events:0,3 --to-offset 1500 \
          --execute
      streamctl group reset analytics --all-topics --by-duration 1h30m --execute
      streamctl group reset analytics --all-topics \
          --to-timestamp 2025-01-31T12:00:00Z
    """
    check_group_names([name])
    target = one_target(
        {
            TargetKind.EARLIEST: to_earliest,
            TargetKind.LATEST: to_latest,
            TargetKind.OFFSET: to_offset,
            TargetKind.TIMESTAMP: to_timestamp,
            TargetKind.DURATION: by_duration,
            TargetKind.SHIFT: shift_by,
        }
    )
    if bool(topic) == all_topics:
        raise UsageError("say which topics", fix="--topic NAME (repeatable), or --all-topics")
    chosen = [parse_topic(text) for text in topic or ()]
    cluster = Cluster(connection)
    cluster.identity()
    groups = Groups(cluster.requests)
    _check_free(groups, name, execute=execute)
    plan = _plan(cluster, groups.committed(name), name, chosen, target)
    if execute:
        groups.alter(name, {(change.topic, change.partition): change.new for change in plan})
    _show(name, plan, output, execute=execute)


def _check_free(groups: Groups, group_id: str, *, execute: bool) -> None:
    state = groups.states([group_id]).get(group_id)
    if state is None:
        note(f"group {group_id} does not exist yet; {'made' if execute else '--execute makes'} it")
    elif state.members:
        raise GroupInUse(group_id, state.members)


def _plan(
    cluster: Cluster,
    committed: Mapping[PartitionName, int],
    group_id: str,
    chosen: Iterable[tuple[str, list[int] | None]],
    target: Target,
) -> list[OffsetChange]:
    now_ms = time.time_ns() // 1_000_000
    if target.kind is TargetKind.TIMESTAMP:
        note(f"to {iso_time(target.value)}")
    elif target.kind is TargetKind.DURATION:
        note(f"to {iso_time(max(0, now_ms - target.value))}")
    partitions = _partitions(cluster, chosen) or _with_offsets(cluster, committed)
    if not partitions:
        raise Failure(
            f"group {group_id!r} has no offsets in any topic", fix="name topics: --topic NAME"
        )
    return [
        change
        for topic, indexes in sorted(partitions.items())
        for change in changes(
            cluster, topic, indexes, target=target, committed=committed, now_ms=now_ms
        )
    ]


def _partitions(
    cluster: Cluster, chosen: Iterable[tuple[str, list[int] | None]]
) -> dict[str, set[int]]:
    partitions: dict[str, set[int]] = {}
    for name, indexes in chosen:
        partitions.setdefault(name, set()).update(cluster.partitions(name, indexes))
    return partitions


def _with_offsets(cluster: Cluster, committed: Mapping[PartitionName, int]) -> dict[str, set[int]]:
    existing = set(cluster.topic_names())  # offsets may outlive a topic
    partitions: dict[str, set[int]] = {}
    for topic, index in committed:
        if topic in existing:
            partitions.setdefault(topic, set()).add(index)
    return partitions


def _show(group_id: str, plan: list[OffsetChange], output: Format, *, execute: bool) -> None:
    if output is Format.JSON:
        print_json(
            {
                "group_id": group_id,
                "executed": execute,
                "offsets": [
                    {
                        "topic": change.topic,
                        "partition": change.partition,
                        "old_offset": change.old,
                        "new_offset": change.new,
                    }
                    for change in plan
                ],
            }
        )
    else:
        listing = table(
            *("TOPIC", "PARTITION", "OLD OFFSET", "", "NEW OFFSET"),
            numbers=("PARTITION", "OLD OFFSET", "NEW OFFSET"),
        )
        for change in plan:
            listing.add_row(*_cells(change))
        results().print(listing)
    bounded = sum(change.wanted != change.new for change in plan)
    if bounded:
        note(f"{counted(bounded, 'offset')} outside of the log: the nearest inside is taken")
    if not execute:
        note("nothing changed; add --execute")
    elif output is Format.TABLE:
        print_done(f"reset group {group_id}: {counted(len(plan), 'partition')}")


def _cells(change: OffsetChange) -> list[Text]:
    same = change.old == change.new
    return [
        Text(change.topic),
        Text(str(change.partition), style="cyan"),
        UNKNOWN if change.old is None else Text(str(change.old)),
        Text("->", style="dim"),
        Text(str(change.new), style="dim" if same else "bold yellow"),
    ]
