"""What differs between two replays, and the list of what is meant to."""

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.oracle.wire_masks import Plain
from tests.oracle.wire_replay import Answer, Replay

LIST: Final = Path(__file__).with_name("wire_differences.md")
ABSENT: Final = "(absent)"
COLUMNS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One value that two brokers answer differently.

    Attributes:
        api: the case's API, as k19.
        case: its name.
        version: that it was replayed at.
        path: the step's number and the way through its answer, joined by dots.
        here: this broker's value.
        kafka: Apache Kafka's.
    """

    api: str
    case: str
    version: int
    path: str
    here: str
    kafka: str

    def __str__(self) -> str:
        cells = (self.api, f"{self.case} v{self.version}", self.path, self.here, self.kafka)
        return f"| {' | '.join(cells)} |"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One row of the list: patterns for a difference's cells, and the reason."""

    api: str
    case: str
    path: str
    here: str
    kafka: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        name = difference.case
        if not fnmatch.fnmatchcase(name, self.case):  # perhaps it names one version
            name = f"{name} v{difference.version}"
        pairs = (
            (difference.api, self.api),
            (name, self.case),
            (difference.path, self.path),
            (difference.here, self.here),
            (difference.kafka, self.kafka),
        )
        return all(fnmatch.fnmatchcase(text, pattern) for text, pattern in pairs)


def listed_differences(path: Path = LIST) -> list[Listed]:
    """Read the list: the rows of all tables in it whose first cell names an API."""
    rows = []
    for line in path.read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("| k"):
            continue
        if len(cells) != COLUMNS or not all(cells):
            raise ValueError(f"not a row of {COLUMNS} cells: {line}")
        api, case, where, here, kafka, reason = cells
        rows.append(Listed(api=api, case=case, path=where, here=here, kafka=kafka, reason=reason))
    return rows


def differences(here: Replay, kafka: Replay) -> list[Difference]:
    """Return all values that differ, in the order of the corpus."""
    found = []
    for key, answers in here.items():
        api_key, name, version = key
        if key not in kafka:
            continue
        for path, ours, theirs in _compare_answers(answers, kafka[key]):
            found.append(
                Difference(
                    api=f"k{api_key}",
                    case=name,
                    version=version,
                    path=path,
                    here=ours,
                    kafka=theirs,
                )
            )
    return found


def _compare_answers(
    here: Sequence[Answer], kafka: Sequence[Answer]
) -> Iterator[tuple[str, str, str]]:
    for ours, theirs in zip(here, kafka, strict=True):
        yield from _compare(ours.plain, theirs.plain, str(ours.step))


def _compare(here: Plain, kafka: Plain, path: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(here, Mapping) and isinstance(kafka, Mapping):
        for name in sorted({*here, *kafka}):
            if name in here and name in kafka:
                yield from _compare(here[name], kafka[name], f"{path}.{name}")
            else:
                yield (
                    f"{path}.{name}",
                    _cell(here.get(name, ABSENT)),
                    _cell(kafka.get(name, ABSENT)),
                )
    elif isinstance(here, list) and isinstance(kafka, list):
        if len(here) != len(kafka):
            yield path, f"{len(here)} elements", f"{len(kafka)} elements"
            return
        for at, (one, other) in enumerate(zip(here, kafka, strict=True)):
            yield from _compare(one, other, f"{path}.{at}")
    elif here != kafka or type(here) is not type(kafka):
        yield path, _cell(here), _cell(kafka)


def _cell(value: Plain) -> str:
    """Return a value in one table cell."""
    if value in ("", None):
        return "null" if value is None else '""'
    if isinstance(value, Mapping):
        codes = [str(one) for name, one in value.items() if str(name).endswith("error_code")]
        return f"present ({', '.join(codes)})" if codes else "present"
    return str(value).replace("|", "/")
