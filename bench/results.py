"""What was measured, as rows; a table for people, one JSON object for programs."""

import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Console
from rich.table import Table

Figures = Mapping[str, float | str]
"""Name, with its unit at the end, and value; text says why there is none."""


class MeasurementFailed(Exception):
    """The broker refused something, or did not come to rest in time; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table.

    Attributes:
        part: what is measured; the rows of one part have the same figures, if they have any.
        case: how it is measured.
    """

    part: str
    case: str
    figures: Figures


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all values do not exceed (nearest rank)."""
    assert values, "nothing was measured"
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def spread(seconds: Sequence[float]) -> Figures:
    """Return the figures of something that was done a few times."""
    return {
        "rounds": len(seconds),
        "median_s": statistics.median(seconds),
        "min_s": min(seconds),
        "max_s": max(seconds),
    }


def show(rows: Sequence[Row], settings: Mapping[str, object], *, as_json: bool) -> None:
    """Print what was measured: tables for people, or one object to stdout for programs."""
    if as_json:
        sys.stdout.write(to_json(rows, settings) + "\n")
    else:
        print_tables(rows, Console())


def to_json(rows: Sequence[Row], settings: Mapping[str, object]) -> str:
    """Return one object: the settings of the run, and a list of rows."""
    return json.dumps(
        {
            "settings": settings,
            "rows": [{"part": row.part, "case": row.case, **row.figures} for row in rows],
        },
        indent=2,
    )


def print_tables(rows: Sequence[Row], console: Console) -> None:
    """Print one table for each part."""
    for part, of_part in groupby(rows, key=lambda row: row.part):
        group = list(of_part)
        names = list(dict.fromkeys(name for row in group for name in row.figures))
        table = Table(title=part, title_justify="left")
        table.add_column("case")
        for name in names:
            table.add_column(name.replace("_", " "), justify="right")
        for row in group:
            table.add_row(row.case, *(_cell(row.figures.get(name, "")) for name in names))
        console.print(table)


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}"
