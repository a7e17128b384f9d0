"""differences.md: what is known to differ, and why; read so that it can be held against a run."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tests.oracle.oracle_run import Compared

FILE: Final = Path(__file__).with_name("differences.md")
_KAFKA: Final = "Apache Kafka"
_OURS: Final = "here"
_ITEM: Final = re.compile(rf"^- (calls|{_KAFKA}|{_OURS}): (.+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One section of the file.

    Attributes:
        calls: names, or patterns of names (* for any text).
        only_kafka, only_ours: regular expressions, each for lines that the other one has not.
    """

    title: str
    calls: Sequence[str]
    only_kafka: Sequence[re.Pattern[str]]
    only_ours: Sequence[re.Pattern[str]]

    def concerns(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.calls)


def read_differences(text: str) -> list[Difference]:
    """Return the sections of the file; what stands in backticks in their lists is what counts."""
    return [_difference(section) for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]


def unlisted(compared: Compared, differences: Iterable[Difference]) -> list[str]:
    """Return the differing lines of a call that no section lists."""
    about = [one for one in differences if one.concerns(compared.call.name)]
    kafka = [pattern for one in about for pattern in one.only_kafka]
    ours = [pattern for one in about for pattern in one.only_ours]
    return [f"- {line}" for line in compared.only_kafka if not _matched(line, kafka)] + [
        f"+ {line}" for line in compared.only_ours if not _matched(line, ours)
    ]


def stale(differences: Iterable[Difference], run: Sequence[Compared]) -> list[str]:
    """Return what the file lists and the run has not shown: names of calls, and expressions."""
    return [problem for one in differences for problem in _stale(one, run)]


def titles(compared: Compared, differences: Iterable[Difference]) -> list[str]:
    """Return the sections that explain a difference of this call."""
    return [
        one.title
        for one in differences
        if one.concerns(compared.call.name) and _shown(one, compared)
    ]


def _stale(difference: Difference, run: Sequence[Compared]) -> list[str]:
    problems = []
    for pattern in difference.calls:
        about = [one for one in run if fnmatchcase(one.call.name, pattern)]
        if not any(_shown(difference, one) for one in about):
            problems.append(f"{difference.title}: no such difference in {pattern}")
    about = [one for one in run if difference.concerns(one.call.name)]
    kafka = [line for one in about for line in one.only_kafka]
    ours = [line for one in about for line in one.only_ours]
    for patterns, lines in ((difference.only_kafka, kafka), (difference.only_ours, ours)):
        problems += [
            f"{difference.title}: no line with {pattern.pattern}"
            for pattern in patterns
            if not any(pattern.search(line) for line in lines)
        ]
    return problems


def _shown(difference: Difference, compared: Compared) -> bool:
    return any(_matched(line, difference.only_kafka) for line in compared.only_kafka) or any(
        _matched(line, difference.only_ours) for line in compared.only_ours
    )


def _matched(line: str, patterns: Collection[re.Pattern[str]]) -> bool:
    return any(pattern.search(line) for pattern in patterns)


def _difference(section: str) -> Difference:
    title, *lines = section.splitlines()
    items: dict[str, list[str]] = {"calls": [], _KAFKA: [], _OURS: []}
    for line in lines:
        if item := _ITEM.match(line):
            items[item[1]] += re.findall(r"`([^`]+)`", item[2])
    return Difference(
        title=title.strip(),
        calls=items["calls"],
        only_kafka=[re.compile(pattern) for pattern in items[_KAFKA]],
        only_ours=[re.compile(pattern) for pattern in items[_OURS]],
    )
