"""What people and programs see of a job: results on stdout, how far it is on stderr."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import structlog
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from spark.upkeep.spread import Tell
from storage.log_lines import log_file

_WARNING: Final = 30
_PIPE_WIDTH: Final = 10_000  # columns; a pipe has no edge, so nothing may be folded there


def log_warnings_to_stderr() -> None:
    """Keep stdout for results."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(_WARNING),
        logger_factory=structlog.WriteLoggerFactory(log_file()),
    )


@contextmanager
def progress(what: str) -> Iterator[Tell]:
    """Show how many tasks are done; nothing where nobody looks."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bars:
        bar = bars.add_task(f"{what} (tasks)", total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str] = ()
) -> None:
    """Print rows under their columns; those named in `numbers` are aligned right."""
    is_terminal = sys.stdout.isatty()
    listing = Table(
        box=box.SIMPLE_HEAD if is_terminal else None,
        header_style="bold",
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for column in columns:
        listing.add_column(
            column, justify="right" if column in numbers else "left", overflow="fold"
        )
    for row in rows:
        listing.add_row(*map(Text, row))
    Console(highlight=False, width=None if is_terminal else _PIPE_WIDTH).print(listing)


def print_json(value: Mapping[str, Any]) -> None:
    """Print a value for programs."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def note(text: str) -> None:
    """Print one line about the work to stderr."""
    sys.stderr.write(f"{text}\n")


def counted(count: int, noun: str) -> str:
    """Return "1 segment", "2,000 segments"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def approximate_size(size: int) -> str:
    """Return a size in bytes for people: "12.3 MiB"."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:,.0f} {unit}" if unit == "bytes" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"
