"""The report: a table for each part, as text or Markdown, what failed, and which targets hold."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.versus.contenders import CONTENDERS, KAFKA, OURS
from bench.versus.ratios import (
    Line,
    Spread,
    Target,
    Value,
    Verdict,
    lines,
    notes,
    unmeasured,
)

RATIO: Final = f"{OURS} / {KAFKA}"
FILE: Final = "report.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run has come to.

    Attributes:
        unmeasured: cases and targets of which there is no figure.
        contenders: that took part, in the order of columns.
    """

    values: Sequence[Value]
    lines: Sequence[Line]
    unmeasured: Sequence[tuple[str, Target]]
    notes: Sequence[str]
    contenders: Sequence[str]

    @classmethod
    def of(
        cls,
        values: Sequence[Value],
        targets: Sequence[Target],
        cases: Sequence[tuple[str, str]],
        contenders: Sequence[str],
    ) -> "Report":
        """Make a report.

        Args:
            values: of all rounds, as far as they went.
            targets: those of others than the contenders are left out.
            cases: part and name of all that was to be measured.
            contenders: names of those that took part.
        """
        asked = [
            target
            for target in targets
            if target.contender in contenders and target.of in ("", *contenders)
        ]
        place = {case: at for at, case in enumerate(cases)}
        made = sorted(lines(values, asked), key=lambda line: place[line.part, line.case])
        return cls(
            values=values,
            lines=made,
            unmeasured=unmeasured(cases, made, asked),
            notes=notes(values),
            contenders=contenders,
        )

    def missed(self) -> bool:
        """Tell whether any target does not hold, or was not measured."""
        verdicts = [verdict for line in self.lines for verdict in line.verdicts]
        return bool(self.unmeasured) or not all(verdict.kept for verdict in verdicts)

    def raw(self) -> Mapping[str, object]:
        """Return all values, and what was made of them, for JSON."""
        return {
            "values": [asdict(value) for value in self.values],
            "lines": [asdict(line) for line in self.lines],
            "notes": list(self.notes),
        }

    def show(self, console: Console) -> None:
        """Print everything."""
        for part, group in groupby(self.lines, key=lambda line: line.part):
            of_part = list(group)
            table = Table(title=part, title_justify="left")
            for at, name in enumerate(self._columns(of_part)):
                table.add_column(name, justify="left" if at < 2 else "right")
            case = ""
            for line in of_part:
                if line.case != case:
                    table.add_section()
                style = "" if all(verdict.kept for verdict in line.verdicts) else "red"
                shown_case = "" if line.case == case else line.case
                cells = [shown_case, *self._cells(line, of_part)[1:]]
                table.add_row(*(Text(cell) for cell in cells), style=style)
                case = line.case
            console.print(table)
        for text in self._rest():
            console.print(Text(text), soft_wrap=True)

    def markdown(self, machine: Mapping[str, object], settings: Mapping[str, object]) -> str:
        """Return the same as a page."""
        page = ["# This broker and Apache Kafka, side by side", ""]
        page += [f"- {name}: {CONTENDERS[name].what}" for name in self.contenders]
        page += ["", _sentence(machine), "", _sentence(settings)]
        for part, group in groupby(self.lines, key=lambda line: line.part):
            of_part = list(group)
            names = self._columns(of_part)
            page += ["", f"## {part}", "", _row(names), _row(["---"] * len(names))]
            page += [_row(self._cells(line, of_part)) for line in of_part]
        return "\n".join([*page, "", *(f"- {text}" for text in self._rest())]) + "\n"

    def write(
        self, directory: Path, machine: Mapping[str, object], settings: Mapping[str, object]
    ) -> None:
        """Write the page and its plots into a directory."""
        from bench.versus.plots import draw  # noqa: PLC0415 (needs what may not be installed)

        (directory / FILE).write_text(self.markdown(machine, settings))
        draw(self.lines, self.contenders, directory)

    def _columns(self, of_part: Sequence[Line]) -> list[str]:
        ratio = [RATIO] if _has_ratio(of_part) else []
        return ["case", "figure", *self._present(of_part), *ratio, "target", "ok"]

    def _present(self, of_part: Sequence[Line]) -> list[str]:
        return [name for name in self.contenders if any(name in line.spreads for line in of_part)]

    def _cells(self, line: Line, of_part: Sequence[Line]) -> list[str]:
        spreads = [shown(line.spreads.get(name)) for name in self._present(of_part)]
        ratio = [shown(line.ratio)] if _has_ratio(of_part) else []
        targets = "; ".join(_promised(verdict) for verdict in line.verdicts)
        kept = "; ".join("yes" if verdict.kept else "NO" for verdict in line.verdicts)
        return [line.case, line.figure.replace("_", " "), *spreads, *ratio, targets, kept]

    def _rest(self) -> list[str]:
        verdicts = [verdict for line in self.lines for verdict in line.verdicts]
        kept = sum(verdict.kept for verdict in verdicts)
        missing = [
            f"not measured: {target.part}, {case}, {target.figure} {target.who} {target.limit}"
            for case, target in self.unmeasured
        ]
        total = len(verdicts) + len(missing)
        return [
            *(f"failed: {note}" for note in self.notes),
            *missing,
            f"targets: {kept} of {total} kept",
        ]


def plots_possible() -> str:
    """Return what is missing for plots; empty if nothing is."""
    if importlib.util.find_spec("matplotlib") is None:
        return (
            "plots need matplotlib: install the extra `spark` (make spark, or pip install .[spark])"
        )
    return ""


def shown(spread: Spread | None) -> str:
    """Return median (least-most), or one number if that is all."""
    if spread is None:
        return ""
    median, least, most = map(number, (spread.median, spread.least, spread.most))
    return median if least == most else f"{median} ({least}-{most})"


def number(value: float) -> str:
    """Return it with three digits, or as many as it has before the point."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3f}"


def _promised(verdict: Verdict) -> str:
    who = verdict.target.who
    if not who:
        return verdict.target.limit
    of = f": {shown(verdict.measured)}" if verdict.target.of else ""
    return f"{who} {verdict.target.limit}{of}"


def _has_ratio(of_part: Sequence[Line]) -> bool:
    return any(line.ratio is not None for line in of_part)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _sentence(facts: Mapping[str, object]) -> str:
    return "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
