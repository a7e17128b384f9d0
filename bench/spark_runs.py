"""Runs of Spark, one way beside the other, and what figures they make."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from rich.console import Console

from bench.results import Figures, Row, show
from bench.spark_log import Cpu, MeasuredLog
from spark.session import build_session
from tests.clients.cache import cache_directory

MB: Final = 1_000_000
CONNECTOR: Final = "kafka"
DIRECT: Final = "streamhouse"
WAYS: Final = (CONNECTOR, DIRECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One of several."""

    took_s: float
    cpu: Cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """What one run reads or writes.

    Attributes:
        size: bytes of keys and values.
    """

    records: int
    size: int


@contextmanager
def bench_session(name: str, home: Path, threads: int) -> Iterator[SparkSession]:
    """Give Spark for the length of a block; its jars come from the tests' cache."""
    session = build_session(
        name,
        master=f"local[{threads}]",
        warehouse=home / "warehouse",
        settings={"spark.jars.ivy": str(cache_directory() / "ivy")},
    )
    try:
        yield session
    finally:
        session.stop()


def run_and_show(
    measure_all: Callable[[Path, Callable[[str], None]], list[Row]],
    settings: Mapping[str, object],
    *,
    as_json: bool,
) -> None:
    """Measure in a folder that goes afterwards, telling how far it is, and show the rows."""
    progress = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="streamhouse-bench-", dir="/tmp") as home:
        rows = measure_all(Path(home), progress.print)
    show(rows, settings, as_json=as_json)


def measure(log: MeasuredLog, work: Callable[[], None]) -> Run:
    """Do something once."""
    before, began_s = log.cpu(), time.monotonic()
    work()
    took_s = time.monotonic() - began_s
    return Run(took_s=took_s, cpu=log.cpu().since(before))


def rows_of(part: str, runs: Mapping[str, Sequence[Run]], amount: Amount) -> list[Row]:
    """Return a row for each way, and one of direct against connector."""
    rows = [Row(part=part, case=way, figures=figures(runs[way], amount)) for way in runs]
    if set(WAYS) <= runs.keys():
        rows.append(Row(part=part, case="direct / connector", figures=ratios(runs)))
    return rows


def figures(runs: Sequence[Run], amount: Amount) -> Figures:
    """Return medians with the slowest and fastest run; CPU seconds are of a run, on average."""
    seconds = [run.took_s for run in runs]
    return {
        "runs": len(runs),
        "records_per_s": amount.records / statistics.median(seconds),
        "least_per_s": amount.records / max(seconds),
        "most_per_s": amount.records / min(seconds),
        "mb_per_s": amount.size / MB / statistics.median(seconds),
        "broker_cpu_s": statistics.fmean(run.cpu.broker_s for run in runs),
        "postgres_cpu_s": statistics.fmean(run.cpu.postgres_s for run in runs),
        "spark_cpu_s": statistics.fmean(run.cpu.spark_s for run in runs),
    }


def ratios(runs: Mapping[str, Sequence[Run]]) -> Figures:
    """Return how many times as fast direct is; each run is compared with its neighbour in time."""
    pairs = [
        connector.took_s / direct.took_s
        for connector, direct in zip(runs[CONNECTOR], runs[DIRECT], strict=True)
    ]
    cpu = [
        connector.cpu.spark_s / direct.cpu.spark_s
        for connector, direct in zip(runs[CONNECTOR], runs[DIRECT], strict=True)
        if direct.cpu.spark_s
    ]
    return {
        "runs": len(pairs),
        "records_per_s": statistics.median(pairs),
        "least_per_s": min(pairs),
        "most_per_s": max(pairs),
        "spark_cpu_s": 1 / statistics.median(cpu) if cpu else "",
    }
