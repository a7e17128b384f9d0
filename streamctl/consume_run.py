"""One run of `streamctl consume`: read, print, and with a group commit what was printed."""

import os
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum

from streamctl.connection import Connection
from streamctl.group_plan import GroupPlan
from streamctl.group_reading import GroupReader
from streamctl.output import counted, note
from streamctl.printable import Record, as_json, as_text
from streamctl.reading import Reader, ReadPlan
from streamctl.standard_streams import read_or_not
from streamctl.stopping import StopWish


class RecordFormat(StrEnum):
    """How a record is printed."""

    TEXT = "text"
    JSON = "json"
    RAW = "raw"


def read_partitions(
    connection: Connection, plan: ReadPlan, output: RecordFormat, *, where: str
) -> None:
    """Print what the plan says, alone; `where` tells in a word where it starts."""
    reader = Reader(connection, plan)
    if plan.stops is None:
        partitions = counted(len(plan.starts), "partition")
        note(f"reading {plan.topic} from {where}, {partitions}; Ctrl-C ends")
    try:
        _print_all(reader.batches(), output)
    finally:
        note(f"{counted(reader.count, 'message')} read from {plan.topic}")
        reader.close()


def read_as_member(connection: Connection, plan: GroupPlan, output: RecordFormat) -> None:
    """Print what the group gives this member, and commit it after it was written.

    Raises:
        KeyboardInterrupt: Ctrl-C came; what was printed is committed, the group was left.
        typer.Exit: the same after SIGTERM.
    """
    with StopWish() as wish:
        note(f"joining group {plan.group}")
        reader = GroupReader(connection, plan)
        try:
            batches = reader.batches(lambda: wish.signal is not None)
            _print_all(batches, output, written=reader.written)
            reader.finish()
        finally:
            note(f"{counted(reader.count, 'message')} read from {plan.topic}")
            reader.close()
    wish.end()


def _print_all(
    batches: Iterable[list[Record]],
    output: RecordFormat,
    *,
    written: Callable[[list[Record]], None] | None = None,
) -> None:
    """Print all batches; tell `written` of each one that stdout took wholly."""
    colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    with read_or_not():  # `… | head` has seen enough; what it took can still be committed
        for batch in batches:
            sys.stdout.buffer.write(b"".join(_lines(batch, output, colours=colours)))
            sys.stdout.buffer.flush()
            if written is not None:
                written(batch)


def _lines(batch: Iterable[Record], output: RecordFormat, *, colours: bool) -> Iterable[bytes]:
    for record in batch:
        match output:
            case RecordFormat.TEXT:
                yield as_text(record, colours=colours).encode() + b"\n"
            case RecordFormat.JSON:
                yield as_json(record).encode() + b"\n"
            case RecordFormat.RAW:
                yield (record.value or b"") + b"\n"
