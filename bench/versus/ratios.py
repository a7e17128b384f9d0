"""From the values of all rounds to lines of a report: medians, spread, ratios, kept targets."""

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Final

from bench.results import Figures
from bench.versus.contenders import KAFKA, OURS

TARGETS: Final = Path(__file__).with_name("targets.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What one contender did once.

    Attributes:
        number: of the round, from 1.
        took_s: with all that a case does around what it measures.
        others_cores: processor cores that neither the contenders nor the clients used meanwhile:
            other programs, and the kernel's writing back.
        note: why there are no figures; empty if there are.
    """

    number: int
    contender: str
    part: str
    case: str
    figures: Figures
    took_s: float
    others_cores: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over all rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        assert values, "nothing was measured"
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A promise; the comment of targets.toml tells what stands where."""

    part: str
    case: str
    figure: str
    contender: str = OURS
    of: str = ""
    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"one of at_least and at_most: {self}")

    def covers(self, part: str, case: str, figure: str = "*") -> bool:
        """Tell whether it is about this figure, or with * about any figure of this case."""
        return (
            part == self.part
            and fnmatchcase(case, self.case)
            and (figure == "*" or fnmatchcase(figure, self.figure))
        )

    def kept(self, measured: float) -> bool:
        if self.at_least is not None:
            return measured >= self.at_least
        assert self.at_most is not None, "one of them is there"
        return measured <= self.at_most

    @property
    def who(self) -> str:
        """Whose figure, or which ratio; empty for what the report's own columns show."""
        if (self.contender, self.of) == (OURS, KAFKA):
            return ""
        return f"{self.contender} / {self.of}" if self.of else self.contender

    @property
    def limit(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A target, and what came out; None: nothing was measured."""

    target: Target
    measured: Spread | None

    @property
    def kept(self) -> bool:
        return self.measured is not None and self.target.kept(self.measured.median)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A figure of a case.

    Attributes:
        spreads: by contender, of those that have it.
        ratio: of ours to Apache Kafka's, in the same round.
    """

    part: str
    case: str
    figure: str
    spreads: Mapping[str, Spread]
    ratio: Spread | None
    verdicts: Sequence[Verdict]


def read_targets(file: Path = TARGETS) -> list[Target]:
    """Return all targets.

    Raises:
        ValueError, TypeError: one of them is not complete.
    """
    return [Target(**table) for table in tomllib.loads(file.read_text())["target"]]


def lines(values: Sequence[Value], targets: Sequence[Target]) -> list[Line]:
    """Return a line for each figure, in the order in which they were measured first."""
    made = []
    for part, case in dict.fromkeys((value.part, value.case) for value in values):
        of_case = [value for value in values if (value.part, value.case) == (part, case)]
        for figure in dict.fromkeys(name for value in of_case for name in value.figures):
            numbers = _numbers(of_case, figure)
            if not numbers:
                continue  # only text, which `notes` tells
            made.append(
                Line(
                    part=part,
                    case=case,
                    figure=figure,
                    spreads={who: Spread.of(list(by.values())) for who, by in numbers.items()},
                    ratio=_ratio(numbers, OURS, KAFKA),
                    verdicts=[
                        Verdict(target=target, measured=_measured(numbers, target))
                        for target in targets
                        if target.covers(part, case, figure)
                    ],
                )
            )
    return made


def unmeasured(
    cases: Sequence[tuple[str, str]], made: Sequence[Line], targets: Sequence[Target]
) -> list[tuple[str, Target]]:
    """Return cases that should have been measured for a target, and of which no line says so."""
    return [
        (case, target)
        for (part, case), target in product(cases, targets)
        if target.covers(part, case)
        and not any(target.covers(part, case, line.figure) for line in made if line.case == case)
    ]


def notes(values: Sequence[Value]) -> list[str]:
    """Return what was said in place of figures; once, if it was said of many cases of a round."""
    said: dict[tuple[str, int, str], list[str]] = {}
    for value in values:
        texts = [f"{name}: {text}" for name, text in value.figures.items() if isinstance(text, str)]
        for text in filter(None, [value.note, *texts]):
            cases = said.setdefault((value.contender, value.number, text), [])
            cases.append(f"{value.part}, {value.case}")
    return [
        f"{contender}, round {number}: {cases[0] if len(cases) == 1 else f'{len(cases)} cases'}:"
        f" {text}"
        for (contender, number, text), cases in said.items()
    ]


def _numbers(values: Sequence[Value], figure: str) -> dict[str, dict[int, float]]:
    """Return a figure by contender and round."""
    numbers: dict[str, dict[int, float]] = {}
    for value in values:
        number = value.figures.get(figure)
        if isinstance(number, (int, float)):
            numbers.setdefault(value.contender, {})[value.number] = number
    return numbers


def _measured(numbers: Mapping[str, Mapping[int, float]], target: Target) -> Spread | None:
    if target.of:
        return _ratio(numbers, target.contender, target.of)
    by_round = numbers.get(target.contender)
    return Spread.of(list(by_round.values())) if by_round else None


def _ratio(numbers: Mapping[str, Mapping[int, float]], ours: str, others: str) -> Spread | None:
    """Return the ratios of those rounds in which both have been measured."""
    mine, theirs = numbers.get(ours, {}), numbers.get(others, {})
    ratios = [value / theirs[at] for at, value in mine.items() if theirs.get(at)]
    return Spread.of(ratios) if ratios else None
