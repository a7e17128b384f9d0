"""Postgres text: one statement per file under queries/; migrations/ makes the database."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

_FILES = resources.files("sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A step that every database takes once, in the order of the names.

    Attributes:
        name: of the file, without its suffix: NNNN_what.
        checksum: SHA-256 of the text, in hex.
    """

    name: str
    text: str
    checksum: str


@cache
def query(name: str) -> str:
    """Return the statement in queries/<name>.sql; its parameters are documented on top of it."""
    return _FILES.joinpath("queries", f"{name}.sql").read_text("utf-8")


def query_names() -> list[str]:
    """Return the names of all statements."""
    files = _FILES.joinpath("queries").iterdir()
    return sorted(file.name.removesuffix(".sql") for file in files if file.name.endswith(".sql"))


def migrations() -> list[Migration]:
    """Return all migrations in the order in which they are applied."""
    files = _FILES.joinpath("migrations").iterdir()
    texts = {
        file.name.removesuffix(".sql"): file.read_text("utf-8")
        for file in files
        if file.name.endswith(".sql")
    }
    return [
        Migration(name=name, text=text, checksum=hashlib.sha256(text.encode()).hexdigest())
        for name, text in sorted(texts.items())
    ]
