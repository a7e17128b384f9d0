"""streamctl consume: print records of a topic, from any offset, until told to stop."""

from functools import partial
from typing import Annotated, Final

import typer

from streamctl.arguments import not_empty
from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.consume_run import RecordFormat, read_as_member, read_partitions
from streamctl.errors import Failure, UsageError
from streamctl.group_plan import GroupPlan
from streamctl.names import complete_groups, complete_topics
from streamctl.options import connected, duration_ms, flag
from streamctl.reading import ReadPlan
from streamctl.topic_settings import check_topic_name
from streamctl.units import DURATION_EXAMPLES

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
COMMIT_EVERY_S: Final = 5.0


Topic = Annotated[
    str,
    typer.Option(
        "--topic", metavar="NAME", autocompletion=complete_topics, help="The topic to read."
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="NAME",
        autocompletion=complete_groups,
        help="Join this consumer group: share its partitions, go on where it stopped.",
    ),
]
AutoCommit = Annotated[
    bool,
    flag(
        "--auto-commit",
        text=f"With --group: commit every {COMMIT_EVERY_S:g} s, not after every batch.",
    ),
]
FromBeginning = Annotated[
    bool,
    flag(
        "--from-beginning",
        text="Start at the log start, not at the end. With --group only where the group "
        "has no offset yet (auto.offset.reset=earliest).",
    ),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="N", help="Only this one. Repeatable."),
]
Offset = Annotated[
    str | None,
    typer.Option(
        "--offset",
        parser=not_empty("--offset"),
        metavar="OFFSET",
        help="Start at N (needs --partition), N before the end (-N), earliest or latest.",
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="Stop after N messages.")]
Output = Annotated[
    RecordFormat, typer.Option("--format", help="Lines to read, JSON lines, or values only.")
]
Timeout = Annotated[
    int | None,
    typer.Option(
        "--timeout",
        parser=duration_ms,
        metavar="DURATION",
        help=f"Stop when nothing came for so long ({DURATION_EXAMPLES}).",
    ),
]
ExitAtEnd = Annotated[
    bool, flag("--exit-at-end", text="Stop at the end that the topic had at the start.")
]


@connected
def consume(
    connection: Connection,
    *,
    topic: Topic,
    group: Group = None,
    auto_commit: AutoCommit = False,
    from_beginning: FromBeginning = False,
    partition: Partitions = None,
    offset: Offset = None,
    limit: Limit = None,
    output: Output = RecordFormat.TEXT,
    timeout: Timeout = None,
    exit_at_end: ExitAtEnd = False,
) -> None:
    r"""Print the messages of a topic as they come; Ctrl-C ends.

    Starts at the end, so only new messages show; --from-beginning shows all. A line of
    text is partition@offset, time, key, value, headers; <null> is no value, <empty> one
    of no bytes. JSON is one object a line; bytes that are not text are {"base64": …}.

    With --group the group remembers what was shown. An offset is committed only after its
    message was written out: after each batch, so a crash repeats at most one batch; with
    --auto-commit every 5 s and at the end. Ctrl-C commits and leaves the group.

    Examples:
      streamctl consume --topic user-events
      streamctl consume --topic user-events --from-beginning --limit 10
      streamctl consume --topic user-events --partition 3 --offset 1500
      streamctl consume --topic user-events --offset -5 --exit-at-end
      streamctl consume --topic user-events --from-beginning --exit-at-end \
          --format json | jq .value
      streamctl consume --topic user-events --group analytics --auto-commit
      streamctl consume --topic user-events --group analytics \
          --from-beginning --limit 100
    """
    check_topic_name(topic)
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: at least one message")
    idle_s = None if timeout is None else timeout / 1000
    _check_group(connection, group, auto_commit=auto_commit, partition=partition, offset=offset)
    where = _start_word(from_beginning=from_beginning, offset=offset, partition=partition)
    cluster = Cluster(connection)
    cluster.identity()  # tells "no broker" within seconds, apart from "no such topic"
    chosen = cluster.partitions(topic, partition or None)
    if group is not None:
        offsets = cluster.earliest_offsets if from_beginning else cluster.readable_ends
        group_plan = GroupPlan(
            topic=topic,
            group=group,
            from_beginning=from_beginning,
            starts=partial(offsets, topic),
            stops=cluster.readable_ends(topic, chosen) if exit_at_end else None,
            limit=limit,
            idle_s=idle_s,
            commit_every_s=COMMIT_EVERY_S if auto_commit else 0,
        )
        read_as_member(connection, group_plan, output)
        return
    ends = cluster.readable_ends(topic, chosen)
    plan = ReadPlan(
        topic=topic,
        starts=_starts(cluster, topic, where, ends),
        stops=ends if exit_at_end else None,
        limit=limit,
        idle_s=idle_s,
    )
    read_partitions(connection, plan, output, where=where)


def _check_group(
    connection: Connection,
    group: str | None,
    *,
    auto_commit: bool,
    partition: list[int] | None,
    offset: str | None,
) -> None:
    """Raise UsageError for what a group's member cannot be told, or only a member can."""
    if group is None:
        if auto_commit:
            raise UsageError("--auto-commit needs --group", fix="name the group: --group NAME")
        return
    if not group:
        raise UsageError("--group '' is no name", fix="name the group: --group NAME")
    for option, given in (("--partition", partition), ("--offset", offset)):
        if given:
            raise UsageError(
                f"--group and {option} exclude each other: the group says what to read and where",
                fix=f"leave one out; streamctl group reset {group} moves the group's offsets",
            )
    property_group = connection.properties.get("group.id", group)
    if property_group != group:
        raise UsageError(
            f"--group {group} and the property group.id={property_group} exclude each other",
            fix="leave one out",
        )


def _start_word(*, from_beginning: bool, offset: str | None, partition: list[int] | None) -> str:
    """Return earliest, latest, N or -N. Raises UsageError for anything else."""
    if from_beginning:
        if offset is not None:
            raise UsageError("--from-beginning and --offset exclude each other")
        return EARLIEST
    where = offset or LATEST
    if where not in {EARLIEST, LATEST} and not where.removeprefix("-").isdecimal():
        raise UsageError(f"--offset {where!r} is no offset", fix="say 1500, -5, earliest or latest")
    if where.isdecimal() and not partition:  # N, not -N
        raise UsageError(
            f"--offset {where} needs --partition: every partition counts its own offsets"
        )
    return where


def _starts(cluster: Cluster, topic: str, where: str, ends: dict[int, int]) -> dict[int, int]:
    """Return the first offset to read of each partition.

    Raises:
        Failure: an offset outside of a partition's log.
    """
    if where == LATEST:
        return ends
    earliest = cluster.earliest_offsets(topic, ends)
    if where == EARLIEST:
        return earliest
    number = int(where)
    if where.startswith("-"):
        return {at: max(earliest[at], end + number) for at, end in ends.items()}
    for at, end in cluster.latest_offsets(topic, ends).items():  # open transactions have offsets
        if not earliest[at] <= number <= end:
            raise Failure(
                f"partition {at} has no offset {number}",
                fix=f"its log starts at {earliest[at]} and the next record gets {end}",
            )
    return dict.fromkeys(ends, number)
