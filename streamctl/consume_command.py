"""streamctl consume: print records of a topic, from any offset, until told to stop."""

import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

import typer

from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.errors import Failure, UsageError
from streamctl.options import connected, duration_ms, flag
from streamctl.output import counted, note
from streamctl.printable import Record, as_json, as_text
from streamctl.reading import Reader, ReadPlan
from streamctl.units import DURATION_EXAMPLES

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


class RecordFormat(StrEnum):
    """How a record is printed."""

    TEXT = "text"
    JSON = "json"
    RAW = "raw"


@connected
def consume(
    connection: Connection,
    *,
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic to read.")],
    from_beginning: Annotated[
        bool, flag("--from-beginning", text="Start at the log start, not at the end.")
    ] = False,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", metavar="N", help="Only this one. Repeatable."),
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset",
            metavar="OFFSET",
            help="Start at N (needs --partition), N before the end (-N), earliest or latest.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Stop after N messages.")
    ] = None,
    output: Annotated[
        RecordFormat, typer.Option("--format", help="Lines to read, JSON lines, or values only.")
    ] = RecordFormat.TEXT,
    timeout: Annotated[
        int | None,
        typer.Option(
            "--timeout",
            parser=duration_ms,
            metavar="DURATION",
            help=f"Stop when nothing came for so long ({DURATION_EXAMPLES}).",
        ),
    ] = None,
    exit_at_end: Annotated[
        bool, flag("--exit-at-end", text="Stop at the end that the topic had at the start.")
    ] = False,
) -> None:
    r"""Print the messages of a topic as they come; Ctrl-C ends.

    Starts at the end, so only new messages show; --from-beginning shows all. A line of
    text is partition@offset, time, key, value, headers; <null> is no value, <empty> one
    of no bytes. JSON is one object a line; bytes that are not text are {"base64": …}.

    Examples:
      streamctl consume --topic user-events
      streamctl consume --topic user-events --from-beginning --limit 10
      streamctl consume --topic user-events --partition 3 --offset 1500
      streamctl consume --topic user-events --offset -5 --exit-at-end
      streamctl consume --topic user-events --from-beginning --exit-at-end \
          --format json | jq .value
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: at least one message")
    where = _start_word(from_beginning=from_beginning, offset=offset)
    if _is_absolute(where) and not partition:
        raise UsageError(
            f"--offset {where} needs --partition: every partition counts its own offsets"
        )
    cluster = Cluster(connection)
    chosen = _chosen(topic, [at.index for at in cluster.topic(topic).partitions], partition)
    ends = cluster.latest_offsets(topic, chosen)
    starts = _starts(where, cluster.earliest_offsets(topic, chosen), ends)
    plan = ReadPlan(
        topic=topic,
        starts=starts,
        stops=ends if exit_at_end else None,
        limit=limit,
        idle_s=None if timeout is None else timeout / 1000,
    )
    reader = Reader(connection, plan)
    _announce(plan, where)
    try:
        _print_all(reader, output)
    finally:
        note(f"{counted(reader.count, 'message')} read from {topic}")
        reader.close()


def _print_all(reader: Reader, output: RecordFormat) -> None:
    colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    try:
        for batch in reader.batches():
            sys.stdout.buffer.write(b"".join(_lines(batch, output, colours=colours)))
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        # `… | head` has seen enough; python's own flush at exit must not fail on the pipe again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _lines(batch: Iterable[Record], output: RecordFormat, *, colours: bool) -> Iterable[bytes]:
    for record in batch:
        match output:
            case RecordFormat.TEXT:
                yield as_text(record, colours=colours).encode() + b"\n"
            case RecordFormat.JSON:
                yield as_json(record).encode() + b"\n"
            case RecordFormat.RAW:
                yield (record.value or b"") + b"\n"


def _start_word(*, from_beginning: bool, offset: str | None) -> str:
    """Return earliest, latest, N or -N. Raises UsageError for anything else."""
    if from_beginning:
        if offset is not None:
            raise UsageError("--from-beginning and --offset exclude each other")
        return EARLIEST
    where = offset or LATEST
    if where not in {EARLIEST, LATEST} and not where.removeprefix("-").isdecimal():
        raise UsageError(f"--offset {where!r} is no offset", fix="say 1500, -5, earliest or latest")
    return where


def _is_absolute(where: str) -> bool:
    return where.isdecimal()


def _chosen(topic: str, existing: list[int], wanted: list[int] | None) -> list[int]:
    missing = sorted(set(wanted or ()) - set(existing))
    if missing:
        raise Failure(
            f"topic {topic!r} has no partition {missing[0]}",
            fix=f"it has 0 to {len(existing) - 1}",
        )
    return sorted(set(wanted)) if wanted else existing


def _starts(where: str, earliest: dict[int, int], latest: dict[int, int]) -> dict[int, int]:
    """Return the first offset to read of each partition.

    Raises:
        Failure: an offset outside of a partition's log.
    """
    if where == EARLIEST:
        return earliest
    if where == LATEST:
        return latest
    number = int(where)
    if where.startswith("-"):
        return {at: max(earliest[at], end + number) for at, end in latest.items()}
    for at, end in latest.items():
        if not earliest[at] <= number <= end:
            raise Failure(
                f"partition {at} has no offset {number}",
                fix=f"its log starts at {earliest[at]} and the next record gets {end}",
            )
    return dict.fromkeys(latest, number)


def _announce(plan: ReadPlan, where: str) -> None:
    if plan.stops is None:
        partitions = counted(len(plan.starts), "partition")
        note(f"reading {plan.topic} from {where}, {partitions}; Ctrl-C ends")
