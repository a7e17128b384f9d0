"""Postgres text: one statement per file under queries/; migrations/ makes the database.

A new version is installed one broker after the other, and may be taken back. So the versions
before a migration work on beside it: what they call keeps its name, arguments and meaning, and no
table is held for long. A migration that cannot keep that, or that comes with what older versions
would misread in the store, says so in its first line (STOPS_OLDER). It is applied only when no
broker is alive.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

STOPS_OLDER: Final = "-- Stops older brokers.\n"
BEFORE_THAT_RULE: Final = "0025_whole_additions"
"""It, and the migrations before it, say nothing, and stop older brokers."""

_FILES = resources.files("sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A step that every database takes once, in the order of the names.

    Attributes:
        name: of the file, without its suffix: NNNN_what.
        checksum: SHA-256 of the text, in hex.
        stops_older: versions that do not know it cannot work beside it.
    """

    name: str
    text: str
    checksum: str
    stops_older: bool


@cache
def query(name: str) -> str:
    """Return the statement in queries/<name>.sql; its parameters are documented on top of it."""
    return _FILES.joinpath("queries", f"{name}.sql").read_text("utf-8")


def query_names() -> list[str]:
    """Return the names of all statements."""
    files = _FILES.joinpath("queries").iterdir()
    return sorted(file.name.removesuffix(".sql") for file in files if file.name.endswith(".sql"))


def hold_queries() -> None:
    """Read all statements: this process goes on with them when another version is installed.

    That one's may need what its migrations make, which no broker has applied yet.
    """
    for name in query_names():
        query(name)


def migrations() -> list[Migration]:
    """Return all migrations in the order in which they are applied."""
    files = _FILES.joinpath("migrations").iterdir()
    texts = {
        file.name.removesuffix(".sql"): file.read_text("utf-8")
        for file in files
        if file.name.endswith(".sql")
    }
    return [
        Migration(
            name=name,
            text=text,
            checksum=hashlib.sha256(text.encode()).hexdigest(),
            stops_older=name <= BEFORE_THAT_RULE or text.startswith(STOPS_OLDER),
        )
        for name, text in sorted(texts.items())
    ]
