"""What a check of index and store has found: how often, examples, and what to do about it."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

EXAMPLES: Final = 20  # of each kind that are kept, so that memory is bounded


class Kind(Enum):
    """What can be found.

    Attributes:
        text: the kind, as people and programs see it.
        is_damage: False: left over or left out, and taken away in the course of time.
        advice: what to do.
    """

    ROW_MISSING = (
        "row missing",
        True,
        "no row has these offsets: restore Postgres from a backup, or `streamctl recover`",
    )
    ROWS_OVERLAP = (
        "rows overlap",
        True,
        "two rows have these offsets: restore Postgres from a backup, or `streamctl recover`",
    )
    ROW_BEHIND_END = (
        "row behind the end",
        True,
        "the high watermark is too low: restore Postgres from a backup, or `streamctl recover`",
    )
    NOT_BUILT_IN_ORDER = (
        "not built in order",
        True,
        "built rows are behind built_offset: restore Postgres from a backup",
    )
    OBJECT_MISSING = (
        "object missing",
        True,
        "restore it under this path from a backup or an old version; else its records are lost",
    )
    OBJECT_TOO_SHORT = (
        "object too short",
        True,
        "restore it under this path from a backup or an old version; else its records are lost",
    )
    WRONG_SIZE = (
        "wrong size",
        True,
        "it is not what was uploaded: restore it from a backup or an old version",
    )
    WRONG_STATE = (
        "wrong state",
        True,
        "rows name it, so it has to be live: stop the upkeep, and restore Postgres from a backup",
    )
    DAMAGED = (
        "damaged bytes",
        True,
        "restore it from a backup or an old version; `streamctl segment dump` shows what is left",
    )
    NOT_BUILT = (
        "not built, among built rows",
        False,
        "if their objects are damaged or missing, restore these: readers have them at once",
    )
    LEFTOVER_ROWS = ("rows before the log start", False, "nothing: the upkeep takes them away")
    UNNEEDED = (
        "live objects that no row names",
        False,
        "nothing: the sweeper takes them away; --repair does it at once",
    )
    OLD_PENDING = ("old pending objects", False, "see that a broker runs with its upkeep enabled")
    OLD_DOOMED = ("old doomed objects", False, "see that a broker runs with its upkeep enabled")
    ORPHANS = ("objects without a row", False, "`streamctl reconcile --dry-run` lists them")

    def __init__(self, text: str, is_damage: bool, advice: str) -> None:
        self.text = text
        self.is_damage = is_damage
        self.advice = advice


@dataclass(slots=True)
class Findings:
    """Counts of each kind, and the first few examples."""

    counts: Counter[Kind] = field(default_factory=Counter)
    examples: dict[Kind, list[str]] = field(default_factory=dict)

    def add(self, kind: Kind, example: str, count: int = 1) -> None:
        """Take note of `count` more."""
        self.counts[kind] += count
        shown = self.examples.setdefault(kind, [])
        if len(shown) < EXAMPLES:
            shown.append(example)

    @property
    def damaged(self) -> bool:
        return any(kind.is_damage for kind in self.counts)


@dataclass(slots=True)
class Checked:
    """How much was looked at.

    Attributes:
        rows: of the index that can be read.
        objects: that the store has.
        stored_bytes: of those.
        read_bytes: whose checksums were checked (--deep).
    """

    partitions: int = 0
    rows: int = 0
    objects: int = 0
    stored_bytes: int = 0
    read_bytes: int = 0
