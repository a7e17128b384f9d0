"""What people see: results on stdout, everything about the work itself on stderr."""

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from streamctl.errors import Failure
from streamctl.standard_streams import discard, read_or_not

UNKNOWN: Final = Text("-", style="dim")
_PIPE_WIDTH = 10_000  # columns; a pipe has no edge, so nothing may be folded there

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None


class Format(StrEnum):
    """How a listing is printed."""

    TABLE = "table"
    JSON = "json"


class _Results(Console):
    """Does not end the process when the reader of a pipe has gone: standard_streams.py does."""

    def on_broken_pipe(self) -> None:
        """Go on with the exception that is handled now."""
        raise  # noqa: PLE0704


class _Notes(Console):
    """Goes on in silence when the reader of a pipe has gone, as of `… 2>&1 | head`."""

    def on_broken_pipe(self) -> None:
        """Say nothing any more."""
        discard(sys.stderr)


def results() -> Console:
    """Return the console for what was asked for (stdout)."""
    return _Results(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def notes() -> Console:
    """Return the console for progress, summaries and errors (stderr)."""
    return _Notes(stderr=True, highlight=False, width=None if sys.stderr.isatty() else _PIPE_WIDTH)


def note(text: str) -> None:
    """Print one dim line about the work to stderr."""
    notes().print(Text(text, style="dim"))


def print_failure(failure: Failure) -> None:
    """Print what went wrong, and below it what helps."""
    console = notes()
    console.print(f"[bold red]error:[/] {_shown(failure.message)}", soft_wrap=True)
    if failure.fix:
        console.print(f"[bold cyan]  fix:[/] {_shown(failure.fix)}", soft_wrap=True)


def _shown(text: str) -> str:
    """Return what may be the words of a broker that is none: they must not drive the terminal."""
    return escape(
        "".join(
            one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode()
            for one in text
        )
    )


def print_done(text: str) -> None:
    """Print that a change was made; the next one is, too, if nobody reads that."""
    with read_or_not():
        results().print(f"[green]✓[/] {escape(text)}", soft_wrap=True)


def print_json(value: Json) -> None:
    """Print a value for programs: plain JSON in UTF-8, whatever stdout is."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())


def counted(count: int, noun: str) -> str:
    """Return "1 message", "2,000 messages"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def table(*columns: str, numbers: Sequence[str] = ()) -> Table:
    """Return an empty table; the columns named in `numbers` are aligned right."""
    listing = Table(
        box=box.SIMPLE_HEAD if sys.stdout.isatty() else None,
        header_style="bold",
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for column in columns:
        listing.add_column(
            column, justify="right" if column in numbers else "left", overflow="fold"
        )
    return listing
