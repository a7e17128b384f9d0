"""What the pages tell of measurements is what was measured (bench/versus/results)."""

import json
import re

from bench.versus.pages import (
    LATEST,
    MEASURED,
    README,
    measured_rows,
    readme_rows,
    rewritten,
    values_of,
    with_run,
)
from bench.versus.ratios import Value, lines, read_targets

MADE = lines(values_of(json.loads(LATEST.read_text())), read_targets())


def test_the_tables_have_the_figures_that_were_measured() -> None:
    rows = measured_rows(MADE)
    for page, its in ((MEASURED, rows), (README, readme_rows(rows))):
        text = page.read_text()
        assert rewritten(text, its) == text, page.name
    missing = [name for name in rows if f"\n| {name} |" not in MEASURED.read_text()]
    assert not missing


def test_the_readme_tells_how_many_targets_are_kept() -> None:
    verdicts = [verdict for line in MADE for verdict in line.verdicts]
    kept = sum(verdict.kept for verdict in verdicts)
    (told,) = re.findall(r"\b(\d+ of \d+) are kept", README.read_text())
    assert told == f"{kept} of {len(verdicts)}"


def test_rounds_of_another_run_come_behind_those_of_the_same_part() -> None:
    def value(part: str, number: int) -> Value:
        return Value(
            number=number,
            contender="ours",
            part=part,
            case="c",
            figures={},
            took_s=1.0,
            others_cores=0.0,
        )

    before = [value("starts", 1), value("starts", 2), value("costs", 1)]
    added = with_run(before, [value("costs", 1), value("starts", 1), value("wide", 1)])
    assert [(one.part, one.number) for one in added[3:]] == [
        ("costs", 2),
        ("starts", 3),
        ("wide", 1),
    ]
    assert added[:3] == before


def test_other_rows_are_left_as_they_are() -> None:
    page = "| a | 1 |\n|---|---|\n| b | 2 |\n| c | 3 |\n"
    assert rewritten(page, {"b": ["4"], "d": ["5"]}) == page.replace("2", "4")
