"""The pages that tell what was measured: `python -m bench.versus.pages` writes their figures.

`bench/versus/results/latest.json` has the values of all rounds that docs/measured.md and the README
tell. Runs are added to it as further rounds, and the rows of the tables are written anew; what is
said of them in prose is for people to write. A row is known by its first cell.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bench.versus.contenders import (
    CONTENDERS,
    KAFKA,
    KAFKA_FLUSH,
    OURS,
    OURS_S3,
    OURS_S3_50,
)
from bench.versus.plots import draw_ratios
from bench.versus.ratios import Line, Value, lines, notes, read_targets
from bench.versus.report import Report, number, shown

ROOT: Final = Path(__file__).parents[2]
LATEST: Final = Path(__file__).with_name("results") / "latest.json"
MEASURED: Final = ROOT / "docs" / "measured.md"
README: Final = ROOT / "README.md"

AT_RATE: Final = "acks at 1,000 records/s, 100 B"
END_TO_END: Final = "end to end at 1,000 records/s, 100 B"
ALONE: Final = "one synchronous producer, 100 B"
AT_HALF: Final = "acks at half of the maximum, 1 KiB"
METADATA: Final = "Metadata of 10 partitions, 8 connections"

LATENCIES: Final = {
    "ack at 1,000 records/s, p50": (AT_RATE, "ack_p50_ms"),
    "ack at 1,000 records/s, p99": (AT_RATE, "ack_p99_ms"),
    "end to end at 1,000 records/s, p50": (END_TO_END, "end_to_end_p50_ms"),
    "end to end at 1,000 records/s, p99": (END_TO_END, "end_to_end_p99_ms"),
    "one synchronous producer, p50": (ALONE, "ack_p50_ms"),
    "one synchronous producer, p99": (ALONE, "ack_p99_ms"),
    "ack at half of what the client can send, 1 KiB, p50": (AT_HALF, "ack_p50_ms"),
    "ack at half of what the client can send, 1 KiB, p99": (AT_HALF, "ack_p99_ms"),
}
OTHERS: Final = {
    "start to first acknowledged record, empty directory, s": (
        "cold: an empty directory",
        "first_ack_s",
    ),
    "the same after SIGTERM, 200 MB in the log": ("warm: it was stopped before", "first_ack_s"),
    "the same after kill -9": ("after kill -9", "first_ack_s"),
    **{
        f"Metadata of 10 partitions, requests/s, {count:,} partitions in the cluster": (
            METADATA,
            f"of_{count}_requests_per_s",
        )
        for count in (10, 1_000, 10_000)
    },
    "1,000 partitions: create, s": ("1,000 partitions", "create_s"),
    "a first record to each, s": ("1,000 partitions", "first_record_to_each_s"),
    "one more to each, s": ("1,000 partitions", "next_record_to_each_s"),
    "memory after a load (shared once), MiB": ("memory after a load", "memory_mib"),
}
LATENCY_CONTENDERS: Final = (KAFKA, KAFKA_FLUSH, OURS, OURS_S3, OURS_S3_50)

Cells = Sequence[str]


def measured_rows(made: Iterable[Line]) -> dict[str, Cells]:
    """Return the cells of each row of docs/measured.md that is measured here, by the first one."""
    found = {(line.case, line.figure): line for line in made}
    rows: dict[str, Cells] = {}
    for (case, figure), line in found.items():
        if line.part == "throughput" and figure == "mb_per_s":
            rows[case] = [*_compared(line), *_compared(found[case, "cpu_s_per_gb"])]
    for name, key in LATENCIES.items():
        rows[name] = [shown(found[key].spreads[one]) for one in LATENCY_CONTENDERS]
    for name, key in OTHERS.items():
        rows[name] = _compared(found[key])
    return rows


def readme_rows(rows: Mapping[str, Cells]) -> dict[str, Cells]:
    """Return the same for the README: least and most of ratios alone."""
    short: dict[str, Cells] = {}
    for name, cells in rows.items():
        medians = [cell.partition(" (")[0] for cell in cells]
        if name in LATENCIES:
            short[name] = medians
        elif name in OTHERS:
            short[name] = [*medians[:2], cells[2]]
        else:
            short[name] = [*medians[:2], cells[2], cells[5]]
    return short


def rewritten(page: str, rows: Mapping[str, Cells]) -> str:
    """Return a page with these rows in the place of those that begin with the same cells."""

    def row(found: re.Match[str]) -> str:
        name = found[1]
        return f"| {' | '.join([name, *rows[name]])} |" if name in rows else found[0]

    return re.sub(r"^\| ([^|]+?) \|.*\|$", row, page, flags=re.MULTILINE)


def _compared(line: Line) -> Cells:
    return [shown(line.spreads[KAFKA]), shown(line.spreads[OURS]), shown(line.ratio)]


def with_run(values: Sequence[Value], run: Iterable[Value]) -> list[Value]:
    """Return all values; the rounds of the run come after those that its parts have already."""
    last: dict[str, int] = {}
    for value in values:
        last[value.part] = max(value.number, last.get(value.part, 0))
    return [*values, *(replace(one, number=one.number + last.get(one.part, 0)) for one in run)]


def values_of(raw: Mapping[str, Any]) -> list[Value]:
    """Return the values that a run has written as JSON."""
    return [Value(**value) for value in raw["values"]]


def main(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", exists=True, help="Of `python -m bench.versus --json`."),
    ] = None,
) -> None:
    """Add runs to those that the pages tell, and write the figures of all of them.

    Examples:
      python -m bench.versus --only starts --contenders kafka,ours --repeat 3 --json starts.json
      python -m bench.versus.pages starts.json
      python -m bench.versus.pages                (the pages anew, of what is there)
    """
    raw = json.loads(LATEST.read_text())
    values = values_of(raw)
    for file in runs or ():
        run = json.loads(file.read_text())
        values = with_run(values, values_of(run))
        raw["settings"]["runs"].append(run["settings"])
    made = lines(values, read_targets())
    report = Report(
        values=values, lines=made, unmeasured=(), notes=notes(values), contenders=tuple(CONTENDERS)
    )
    LATEST.write_text(json.dumps({**raw, **report.raw()}, indent=1) + "\n")
    rows = measured_rows(made)
    for page, its in ((MEASURED, rows), (README, readme_rows(rows))):
        page.write_text(rewritten(page.read_text(), its))
    judged = [(line, verdict) for line in made for verdict in line.verdicts]
    draw_ratios(made, LATEST.with_name("ratios.png"))
    for line, verdict in judged:
        if not verdict.kept and verdict.measured is not None:
            missed = f"{verdict.target.limit}: {number(verdict.measured.median)}"
            typer.echo(f"missed {line.case}, {line.figure} {verdict.target.who} {missed}")
    typer.echo(f"{sum(verdict.kept for _, verdict in judged)} of {len(judged)} targets kept")


if __name__ == "__main__":
    typer.run(main)
