"""`python -m bench.versus`: this broker and Apache Kafka side by side."""

import importlib
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Final, NoReturn

import psutil
import typer
from rich.console import Console

from bench.versus.contenders import CONTENDERS
from bench.versus.machine import machine
from bench.versus.part import Case, Cases, Scale
from bench.versus.progress import progress
from bench.versus.ratios import Value, read_targets
from bench.versus.report import Report, plots_possible
from bench.versus.rounds import amount, run_rounds

PARTS: Final = (
    "latency",
    "throughput",
    "crowds",
    "wide",
    "wide_reads",
    "costs",
    "workers",
    "starts",
)
"""Modules of bench/versus/parts, in the order in which they are measured on each contender.

Latency comes first: after gigabytes of throughput it would be that beside their upkeep."""
END_S: Final = 20.0
INTERRUPTED: Final = 130
ENDING: Final = (signal.SIGINT, signal.SIGTERM)
FILE_COLUMNS: Final = 180


def main(
    *,
    repeat: Annotated[
        int | None, typer.Option(help="Rounds; 5 if not given, 1 with --quick.", min=1)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One round of little: a look whether it all works.")
    ] = False,
    only: Annotated[str, typer.Option(metavar="PART,...", help=f"Of {', '.join(PARTS)}.")] = "",
    contenders: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(CONTENDERS)}.")
    ] = "",
    json_file: Annotated[
        Path | None,
        typer.Option("--json", dir_okay=False, help="File for each value of each round."),
    ] = None,
    report_directory: Annotated[
        Path | None,
        typer.Option("--report", file_okay=False, help="Directory for plots and report.md."),
    ] = None,
) -> None:
    """Start this broker and Apache Kafka in turn, do the same with both, and print the ratios.

    In every round each contender starts empty, alone, and does all its cases; who begins changes
    from round to round. A line of the report is a figure: the median of all rounds, with the least
    and the most, and the ratio of ours to Apache Kafka's in the same round. Targets are those of
    bench/versus/targets.toml; if one is missed the exit code is 1. Ctrl-C prints what there is.

    Examples:
      python -m bench.versus --quick                         (4 minutes)
      python -m bench.versus --json versus.json --report .   (40 minutes; have a quiet machine)
      python -m bench.versus --only latency,starts --contenders kafka,ours --repeat 3
    """
    if report_directory is not None and (missing := plots_possible()):
        raise typer.BadParameter(missing, param_hint="--report")
    parts = _chosen(only, PARTS, "--only")
    names = _chosen(contenders, tuple(CONTENDERS), "--contenders")
    rounds = repeat or (1 if quick else 5)
    values: list[Value] = []
    with tempfile.TemporaryDirectory(prefix="streamhouse-versus-") as scratch:
        scale = Scale(quick=quick, scratch=Path(scratch))
        cases = [case for case in cases_of(parts, scale) if set(case.contenders) & set(names)]
        names = [name for name in names if any(name in case.contenders for case in cases)]
        if not cases:
            raise typer.BadParameter(f"none of them does {only}", param_hint="--contenders")
        interrupted = _measure(cases, names, rounds, scale, values)
    report = Report.of(values, read_targets(), [(case.part, case.name) for case in cases], names)
    # a pipe or a file has no width of its own
    report.show(Console() if sys.stdout.isatty() else Console(width=FILE_COLUMNS))
    settings = {"repeat": rounds, "quick": quick, "parts": parts, "contenders": names}
    _write(report, settings, json_file, report_directory)
    if interrupted:
        sys.exit(INTERRUPTED)
    sys.exit(1 if report.missed() else 0)


def _write(
    report: Report,
    settings: Mapping[str, object],
    json_file: Path | None,
    report_directory: Path | None,
) -> None:
    if json_file is None and report_directory is None:
        return
    facts = machine()
    if json_file is not None:
        text = json.dumps({"settings": settings, "machine": facts, **report.raw()}, indent=1)
        json_file.write_text(text + "\n")
    if report_directory is not None:
        report_directory.mkdir(parents=True, exist_ok=True)
        report.write(report_directory, facts, settings)


def _chosen(given: str, known: Sequence[str], option: str) -> list[str]:
    """Return those that are named, in the order of all.

    Raises:
        BadParameter: one is not known.
    """
    names = [name.strip() for name in given.split(",") if name.strip()]
    if wrong := [name for name in names if name not in known]:
        said = f"no such name: {', '.join(wrong)}; there are {', '.join(known)}"
        raise typer.BadParameter(said, param_hint=option)
    return [name for name in known if not names or name in names]


def cases_of(parts: Sequence[str], scale: Scale) -> list[Case]:
    """Return the cases of all these parts, in their order."""
    made: list[Case] = []
    for part in parts:
        cases: Cases = importlib.import_module(f"bench.versus.parts.{part}").cases
        made += cases(scale)
    return made


def _measure(
    cases: Sequence[Case], names: Sequence[str], rounds: int, scale: Scale, values: list[Value]
) -> bool:
    """Run all rounds; return whether somebody ended them before."""
    total = rounds * amount(cases, names)
    contenders = {name: CONTENDERS[name] for name in names}
    try:
        with _all_ended(), progress(total) as say:
            run_rounds(cases, contenders, rounds, scale, values=values, say=say)
    except KeyboardInterrupt:
        Console(stderr=True).print(f"interrupted: {len(values)} of {total} cases are over")
        return True
    return False


@contextmanager
def _all_ended() -> Iterator[None]:
    """Leave no process behind, however the block ends; SIGTERM ends it as Ctrl-C does."""
    before = {number: signal.signal(number, _interrupt_once) for number in ENDING}
    try:
        yield
    finally:
        children = psutil.Process().children(recursive=True)
        for child in children:
            _ask_to_end(child)
        _, late = psutil.wait_procs(children, END_S)
        for child in late:
            child.kill()
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt_once(_: int, __: FrameType | None) -> NoReturn:
    """Raise KeyboardInterrupt; a second signal would only interrupt what ends the processes."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _ask_to_end(child: psutil.Process) -> None:
    try:
        child.terminate()
    except psutil.NoSuchProcess:
        return  # it has ended by itself


if __name__ == "__main__":
    typer.run(main)
