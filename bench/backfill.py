"""Read gigabytes from offset 0: how fast, and what does it cost a consumer at the end of the log?

python -m bench.backfill --bootstrap HOST:PORT --http HOST:PORT; the second is the broker's port for
health and metrics, by which it is known when segments are built.
"""

import sys
import time
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final
from urllib.request import urlopen

import typer
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from bench.backfill_clients import in_process, load, read_from_start, tail
from bench.cluster import Cluster
from bench.results import Figures, Row, percentile, show

MB: Final = 1_000_000
WARM_BYTES: Final = 24 * MB  # with what clients fetch ahead it fits into the block cache
QUIET_S: Final = 25.0  # longer than the builder's interval
GLANCE_S: Final = 1.0
CALL_S: Final = 10.0
COUNTERS: Final = ("object_get_seconds_count", "hedged_gets_total", "store_throttled_total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured.

    Attributes:
        total_gb: written first; more than broker and operating system keep makes it cold.
        tail_rate: records per second of the consumer at the end, of 100 bytes each.
        tail_s: for so long, alone; with a backfill, until that ends, at least so long.
    """

    total_gb: float
    partitions: int
    record_bytes: int
    tail_rate: int
    tail_s: float


class Backfill:
    """One topic of old records, and one for the tail."""

    def __init__(self, cluster: Cluster, http: str, plan: Plan) -> None:
        self._bootstrap = cluster.bootstrap
        self._http = http
        self._plan = plan
        self._old = cluster.new_topic(plan.partitions)
        self._new = cluster.new_topic(1)

    def load(self) -> Figures:
        """Write the old records."""
        plan = self._plan
        total = int(plan.total_gb * 1_000 * MB)
        arguments = (self._bootstrap, self._old, plan.partitions, total, plan.record_bytes)
        took_s = in_process(load, *arguments).result()
        return {"mb": total / MB, "seconds": took_s, "mb_per_s": total / MB / took_s}

    def build(self) -> Figures:
        """Wait until no more segments are built."""
        began_s = changed_s = time.monotonic()
        built = self._metric("upkeep_bytes_built_total")
        while time.monotonic() < changed_s + QUIET_S:
            time.sleep(GLANCE_S)
            now = self._metric("upkeep_bytes_built_total")
            if now != built:
                built, changed_s = now, time.monotonic()
        return {"mb": built / MB, "seconds": changed_s - began_s}

    def read(self, max_bytes: int) -> Figures:
        """Read from the start with nobody else about."""
        before = self._counters()
        return self._read_figures(self._reading(max_bytes).result(), before)

    def tail_alone(self) -> Figures:
        """Follow the end with nobody else about."""
        return _latency(self._tail(self._plan.tail_s).result())

    def both(self) -> tuple[Figures, Figures]:
        """Follow the end while backfills go on, one after the other."""
        before = self._counters()
        following = self._tail(self._plan.tail_s)
        size, took_s = 0, 0.0
        while not following.done():
            one_size, one_s = self._reading(sys.maxsize).result()
            size, took_s = size + one_size, took_s + one_s
        return _latency(following.result()), self._read_figures((size, took_s), before)

    def _tail(self, duration_s: float) -> "Future[Any]":
        return in_process(tail, self._bootstrap, self._new, self._plan.tail_rate, duration_s)

    def _reading(self, max_bytes: int) -> "Future[Any]":
        arguments = (self._bootstrap, self._old, self._plan.partitions, max_bytes)
        return in_process(read_from_start, *arguments)

    def _read_figures(self, read: tuple[int, float], before: dict[str, float]) -> Figures:
        size, took_s = read
        counted = {name: now - before[name] for name, now in self._counters().items()}
        return {
            "mb": size / MB,
            "mb_per_s": size / MB / took_s,
            "gets": counted["object_get_seconds_count"],
            "hedged": counted["hedged_gets_total"],
            "throttled": counted["store_throttled_total"],
        }

    def _counters(self) -> dict[str, float]:
        return {name: self._metric(name) for name in COUNTERS}

    def _metric(self, name: str) -> float:
        """Return the sum of all samples of a metric; 0 if there is none."""
        with urlopen(f"http://{self._http}/metrics", timeout=CALL_S) as response:
            text = response.read().decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"streamhouse_{name}"
        )


def _latency(seconds: list[float]) -> Figures:
    return {
        "records": len(seconds),
        "p50_ms": percentile(seconds, 0.5) * 1000,
        "p99_ms": percentile(seconds, 0.99) * 1000,
        "max_ms": max(seconds) * 1000,
    }


def main(
    *,
    bootstrap: Annotated[str, typer.Option(help="HOST:PORT of a running broker.")],
    http: Annotated[str, typer.Option(help="HOST:PORT of its health and metrics.")],
    gigabytes: Annotated[float, typer.Option(help="Of old records.", min=0.01)] = 2.0,
    partitions: Annotated[int, typer.Option(help="Of the old topic.", min=1)] = 4,
    record_bytes: Annotated[int, typer.Option(help="Of an old record.", min=1)] = 1_000,
    tail_rate: Annotated[int, typer.Option(help="Records per second at the end.", min=1)] = 1_000,
    seconds: Annotated[float, typer.Option(help="For the tail.", min=1)] = 20.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
) -> None:
    """Measure a backfill beside a tail."""
    plan = Plan(
        total_gb=gigabytes,
        partitions=partitions,
        record_bytes=record_bytes,
        tail_rate=tail_rate,
        tail_s=seconds,
    )
    progress = Console(stderr=True)
    cluster = Cluster(bootstrap)
    rows: list[Row] = []

    def add(part: str, case: str, figures: Figures) -> None:
        progress.print(f"{part}, {case}: {figures}")
        rows.append(Row(part=part, case=case, figures=figures))

    with cluster.tidied():
        backfill = Backfill(cluster, http, plan)
        add("load", "written", backfill.load())
        add("load", "built", backfill.build())
        add("read from 0", "cold, all of it", backfill.read(sys.maxsize))
        backfill.read(WARM_BYTES)
        add("read from 0", "warm, its beginning", backfill.read(WARM_BYTES))
        add("tail", "alone", backfill.tail_alone())
        latency, reading = backfill.both()
        add("tail", "beside backfills", latency)
        add("read from 0", "cold, beside the tail", reading)
    rows.sort(key=lambda row: row.part)
    show(rows, {"bootstrap": bootstrap, **asdict(plan)}, as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
