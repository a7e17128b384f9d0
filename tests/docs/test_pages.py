"""The README and the pages it leads to: links, contents, names, and what is told twice."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Final

import pytest

from broker.config import Settings

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
OPERATIONS: Final = ROOT / "docs" / "operations.md"
LIMITS: Final = ROOT / "docs" / "limits.md"
MEASURED: Final = ROOT / "docs" / "measured.md"
PAGES: Final = (
    README,
    ROOT / "SECURITY.md",
    ROOT / "bench" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
)
SECTIONS_WITHOUT_CONTENTS: Final = 5
MB_PER_S_AND_CPU: Final = 6
"""Figures of a row of throughput: Kafka's, ours and their ratio, of each."""
CODE: Final = re.compile(r"^```.*?^```$|^    .*?$", re.MULTILINE | re.DOTALL)
FILES: Final = re.compile(r"\b(?:bench|broker|deploy|docs|spark|storage|tests)/[\w/.-]+\.[a-z]+\b")
MODULES: Final = re.compile(r"python -m ((?:bench|spark|tests)(?:\.[a-z_]+)+)")

Cells = tuple[str, ...]


def prose(page: Path) -> str:
    return CODE.sub("", page.read_text())


def headings(page: Path, marks: str = "#+") -> list[str]:
    return re.findall(rf"^{marks} (.+)$", prose(page), re.MULTILINE)


def anchor(heading: str) -> str:
    """Return what a heading is linked by, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)


def rows(text: str) -> set[Cells]:
    """Return the rows of all tables, without their heads."""
    bodies = re.findall(r"^\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    lines = [line for body in bodies for line in body.splitlines()]
    return {tuple(cell.strip() for cell in line[1:-1].split("|")) for line in lines}


def section(page: Path, name: str) -> str:
    return page.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def short(cells: Cells) -> Iterator[Cells]:
    """Yield how the README may have a measured row: without least and most but of ratios."""
    name, *figures = cells
    medians = [figure.partition(" (")[0] for figure in figures]
    yield (name, *medians)
    yield (name, *medians[:-1], figures[-1])
    if len(figures) == MB_PER_S_AND_CPU:
        yield (name, *medians[:2], figures[2], figures[5])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(prose(page)):
        file, _, fragment = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.is_file(), link
        if fragment:
            assert fragment in map(anchor, headings(target)), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    for name in FILES.findall(text):
        assert (ROOT / name).exists() or (page.parent / name).exists(), name
    for module in MODULES.findall(text):
        path = ROOT / module.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_long_page_begins_with_its_contents(page: Path) -> None:
    sections = headings(page, "##")
    if len(sections) > SECTIONS_WITHOUT_CONTENTS:
        contents = links(page.read_text().partition("\n## ")[0])
        assert {f"#{anchor(name)}" for name in sections} <= set(contents)


def test_every_page_is_reached_from_the_readme() -> None:
    led_to = {(ROOT / link.partition("#")[0]).resolve() for link in links(prose(README))}
    assert set(PAGES) - {README} <= led_to


@pytest.mark.parametrize("name", ["When something fails", "Limits"])
def test_the_readmes_short_tables_are_part_of_the_whole_ones(name: str) -> None:
    found = rows(section(README, name))
    assert found
    assert found <= rows(LIMITS.read_text())


def test_the_readmes_figures_are_those_measured() -> None:
    found = rows(section(README, "Measured"))
    assert found
    assert found <= {row for cells in rows(MEASURED.read_text()) for row in short(cells)}


def value(told: str) -> object:
    """Return what a default is in the unit of its setting: bytes, milliseconds or as it is."""
    if told in ("", "true", "false"):
        return {"": "", "true": True, "false": False}[told]
    number, _, unit = told.partition(" ")
    return (
        int(number.replace(",", "")) * {"": 1, "MiB": 1 << 20, "min": 60_000, "h": 3_600_000}[unit]
    )


def test_each_setting_of_a_group_is_told_with_its_default() -> None:
    told: dict[str, object] = {}
    for names, defaults, *_ in rows(section(OPERATIONS, "Settings")):
        first, *others = re.findall(r"`([\w.]+)`", names)
        group = first.partition(".")[0]
        values = [value(one) for one in defaults.split(", ")]
        found = (first, *(f"{group}{other}" for other in others))
        told |= dict(zip(found, values if values != [""] else [""] * len(found), strict=True))
    groups = {
        name: fields(field.annotation)
        for name, field in Settings.model_fields.items()
        if is_dataclass(field.annotation)
    }
    assert told == {
        f"{name}.{one.name}": one.default for name, group in groups.items() for one in group
    }
