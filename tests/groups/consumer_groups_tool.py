"""kafka-consumer-groups, the stock tool: run, and its tables read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.clients.java_tools import JavaTools

HEADER: Final = re.compile(r"^(GROUP|TOPIC) +[A-Z]")
COORDINATOR: Final = "COORDINATOR (ID)"

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What the tool printed.

    Attributes:
        rows: of all tables, each by the names of its columns; a cell without a value is "-".
    """

    text: str
    rows: list[Row]

    def of(self, group: str) -> list[Row]:
        """Return the rows of one group."""
        return [row for row in self.rows if row["GROUP"] == group]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupsTool:
    """The tool, pointed at one cluster."""

    tools: JavaTools

    def __call__(self, *arguments: str) -> Printed:
        """Run it. It ends with 0 even where it prints an error, so look at the text.

        Raises:
            ProgramFailed: it ended with another code than 0, or not in time.
        """
        text = self.tools.run("kafka-consumer-groups", *arguments).stdout
        return Printed(text=text, rows=rows_in(text))


def rows_in(text: str) -> list[Row]:
    """Return the rows of all tables in a text; the last column takes the rest of a line."""
    rows: list[Row] = []
    columns: list[str] = []
    for line in text.splitlines():
        if HEADER.match(line):
            columns = _one_word(line).split()
        elif line.strip() and columns:
            cells = _one_word(line).split(maxsplit=len(columns) - 1)
            rows.append(dict(zip(columns, map(str.strip, cells), strict=True)))
        else:
            columns = []
    return rows


def _one_word(line: str) -> str:
    """Join what has a space inside one cell: COORDINATOR (ID), and its HOST:PORT (NODE)."""
    return re.sub(r" +(?=\(\w+\))", "", line)
