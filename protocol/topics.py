"""Which topic names Kafka allows."""

import re
from typing import Final

MAX_NAME_LENGTH: Final = 249

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Return why `name` cannot be a topic's name, or None if it can."""
    if not name:
        return "a topic name must not be empty"
    if name in {".", ".."}:
        return f"a topic name must not be {name!r}"
    if len(name) > MAX_NAME_LENGTH:
        return f"a topic name has at most {MAX_NAME_LENGTH} characters, this one has {len(name)}"
    # fullmatch: `$` would let a trailing newline through
    if not _NAME.fullmatch(name):
        return f"topic name {name!r} has characters other than a-z, A-Z, 0-9, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Return what two topics must not have in common: metric names write a '.' as a '_'."""
    return name.replace(".", "_")
