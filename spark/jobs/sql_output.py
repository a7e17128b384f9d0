"""Results of a query: a table to read, JSON or Parquet for programs."""

import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, Literal

import pyarrow as pa
import zstandard
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, NumericType, StructField
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from spark.jobs.options import WrongUsage

TABLE_ROWS: Final = 1_000
"""Of a table on a terminal, unless --limit says otherwise."""
MAX_ROWS: Final = 2**31 - 2
"""Of --limit: Spark takes 31 bits, and a table looks for one row more."""
_PIPE_WIDTH: Final = 10_000
_NULL: Final = Text("null", style="dim")


class Format(StrEnum):
    """How results are given."""

    table = "table"
    json = "json"
    parquet = "parquet"


class _Results(Console):
    """Does not end the process when the reader of a pipe has gone: the job's end does."""

    def on_broken_pipe(self) -> None:
        """Go on with the exception that is handled now."""
        raise  # noqa: PLE0704


def write(result: DataFrame, form: Format, *, output: str | None, limit: int | None) -> None:
    """Compute a result and give it.

    Args:
        result: of a query.
        form: TABLE and JSON (an object a line) go to stdout, PARQUET to `output`.
        output: directory or URL, which must not be there yet.
        limit: rows at most; None: all, but TABLE_ROWS of a table.

    Raises:
        WrongUsage: a file with two columns of one name.
    """
    if form is not Format.table:
        check_names(result)
    match form:
        case Format.table:
            _print_table(result, limit or TABLE_ROWS, is_told=limit is not None)
        case Format.json:
            _print_lines(result if limit is None else result.limit(limit))
        case Format.parquet:
            assert output is not None, "checked with the options"
            (result if limit is None else result.limit(limit)).write.parquet(output)


def check_names(result: DataFrame) -> None:
    """Refuse two columns that a file cannot tell apart.

    Raises:
        WrongUsage: there are two.
    """
    seen: set[str] = set()
    for name in result.columns:
        if name.lower() in seen:
            raise WrongUsage(
                f"two columns of the result are called {name}", fix=f"name one: {name} AS other"
            )
        seen.add(name.lower())


def _print_table(result: DataFrame, limit: int, *, is_told: bool) -> None:
    places = [f"c{number}" for number in range(len(result.columns))]  # names may come twice
    cells = (_text(F.col(place), one) for place, one in zip(places, result.schema, strict=True))
    rows = result.toDF(*places).limit(limit + 1).select(*cells).collect()
    is_terminal = sys.stdout.isatty()
    table = Table(box=box.SIMPLE_HEAD if is_terminal else None, header_style="bold", pad_edge=False)
    for one in result.schema:
        is_number = isinstance(one.dataType, NumericType)
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(escape(_visible(one.name)), justify=justify, overflow="fold")
    for row in rows[:limit]:
        table.add_row(*(_NULL if cell is None else escape(_visible(cell)) for cell in row))
    _Results(highlight=False, width=None if is_terminal else _PIPE_WIDTH).print(table)
    if len(rows) > limit:
        how = "" if is_told else "; --limit N shows more, --format json all"
        sys.stderr.write(f"there are more than these {limit:,} rows{how}\n")


def _text(column: Column, field: StructField) -> Column:
    """Return a value as text, bytes in hexadecimal; times are those of the session's zone."""
    if isinstance(field.dataType, BinaryType):
        return F.concat(F.lit("0x"), F.lower(F.hex(column)))
    return column.cast("string")


def _print_lines(result: DataFrame) -> None:
    columns = [F.col(f"`{name.replace('`', '``')}`") for name in result.columns]
    # times are written with their zone, and what is null is there, too
    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"}
    lines = result.select(F.to_json(F.struct(*columns), options))
    for piece in lines.mapInArrow(_compressed, "lines binary").toLocalIterator():
        sys.stdout.write(zstandard.decompress(piece[0]).decode())


def _compressed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield lines compressed: the driver takes all that a task has made at once."""
    for batch in batches:
        lines = batch.column(0).cast(pa.binary()).to_pylist()
        text = b"".join(line + b"\n" for line in lines)
        piece = pa.array([zstandard.compress(text)], pa.binary())
        yield pa.RecordBatch.from_arrays([piece], names=["lines"])


def _visible(text: str) -> str:
    """Return text that cannot drive a terminal: it is whatever producers wrote."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
