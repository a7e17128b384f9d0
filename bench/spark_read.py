"""Scan a topic with Spark: straight from the object store, and through brokers.

python -m bench.spark_read --records 5000000 --repeat 3; a broker with an embedded Postgres and a
directory as object store, in a temporary folder. All records lie in built segments. Before each
scan the broker starts again and the objects are dropped from the page cache: it is cold. The two
ways take turns, after a scan of a small topic that nobody measures. CPU of the broker is that of
all its processes but Postgres; `idle` tells what it uses when nobody asks for anything.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from bench.cluster import Cluster
from bench.results import MeasurementFailed, Row
from bench.spark_log import MeasuredLog, measured_log, write_events
from bench.spark_runs import (
    CONNECTOR,
    WAYS,
    Amount,
    Run,
    bench_session,
    measure,
    rows_of,
    run_and_show,
)

IDLE_S: Final = 10.0
WARM_RECORDS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured.

    Attributes:
        record_bytes: of a value; its key has 11 more.
        codec: of the producer.
        repeat: scans of each way.
        threads: of Spark.
    """

    records: int
    record_bytes: int
    partitions: int
    codec: str
    repeat: int
    threads: int


class Scans:
    """A topic of events in segments, and a session that reads it."""

    def __init__(self, log: MeasuredLog, session: SparkSession, plan: Plan) -> None:
        self._log = log
        self._session = session
        self._plan = plan
        self._cluster = Cluster(log.bootstrap)

    def load(self, records: int) -> tuple[str, Amount]:
        """Return a new topic, all of it in segments, and what it has."""
        plan = self._plan
        topic = self._cluster.new_topic(plan.partitions)
        size = write_events(
            self._log.bootstrap, topic, records, size=plan.record_bytes, codec=plan.codec
        )
        self._log.await_built(topic)
        return topic, Amount(records=records, size=size)

    def read(self, way: str, topic: str) -> DataFrame:
        """Return all of a topic."""
        reader = self._session.read.format(way).option("subscribe", topic)
        if way == CONNECTOR:
            return reader.option("kafka.bootstrap.servers", self._log.bootstrap).load()
        location = self._log.location
        return reader.options(postgres=location.postgres, store=location.store).load()

    def all_columns(self, way: str, topic: str, _: Amount) -> None:
        """Make every column of every record, and put it nowhere."""
        self.read(way, topic).write.format("noop").mode("overwrite").save()

    def aggregate(self, way: str, topic: str, amount: Amount) -> None:
        """Add the records up, which also shows that all are there.

        Raises:
            MeasurementFailed: they are not.
        """
        size = F.sum(F.octet_length("key") + F.octet_length("value"))
        (found,) = self.read(way, topic).agg(F.count("*"), size).collect()
        if tuple(found) != (amount.records, amount.size):
            raise MeasurementFailed(f"{way} read {tuple(found)}, not {amount}")

    def compare(
        self,
        part: str,
        work: Callable[[str, str, Amount], None],
        topic: str,
        amount: Amount,
        say: Callable[[str], None],
    ) -> list[Row]:
        """Scan both ways in turn."""
        runs: dict[str, list[Run]] = {way: [] for way in WAYS}
        for number in range(self._plan.repeat):
            for way in WAYS if number % 2 == 0 else reversed(WAYS):
                self._log.make_cold()
                run = measure(self._log, lambda way=way: work(way, topic, amount))  # type: ignore[misc]
                say(f"{part}, {way}: {run}")
                runs[way].append(run)
        return rows_of(part, runs, amount)

    def idle(self) -> Row:
        """Let everybody rest."""
        self._log.make_cold()
        run = measure(self._log, lambda: time.sleep(IDLE_S))
        figures = {
            "seconds": run.took_s,
            "broker_cpu_s": run.cpu.broker_s,
            "postgres_cpu_s": run.cpu.postgres_s,
        }
        return Row(part="idle", case="nobody asks for anything", figures=figures)


def measure_all(plan: Plan, home: Path, say: Callable[[str], None]) -> list[Row]:
    """Load a topic and scan it in all ways."""
    with (
        measured_log(home / "broker") as log,
        bench_session("bench-spark-read", home, plan.threads) as session,
    ):
        scans = Scans(log, session, plan)
        warm, little = scans.load(min(plan.records, WARM_RECORDS))
        topic, amount = scans.load(plan.records)
        say(f"loaded: {amount}")
        for way in WAYS:
            scans.all_columns(way, warm, little)
            scans.aggregate(way, warm, little)
        return [
            *scans.compare("all columns", scans.all_columns, topic, amount, say),
            *scans.compare("count and bytes", scans.aggregate, topic, amount, say),
            scans.idle(),
        ]


def main(
    *,
    records: Annotated[int, typer.Option(help="In the topic.", min=1)] = 5_000_000,
    record_bytes: Annotated[int, typer.Option(help="Of a value.", min=80)] = 100,
    partitions: Annotated[int, typer.Option(help="Of the topic.", min=1)] = 4,
    codec: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    repeat: Annotated[int, typer.Option(help="Scans of each way.", min=1)] = 3,
    threads: Annotated[int, typer.Option(help="Of Spark.", min=1)] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
) -> None:
    """Measure cold scans on this machine."""
    plan = Plan(
        records=records,
        record_bytes=record_bytes,
        partitions=partitions,
        codec=codec,
        repeat=repeat,
        threads=threads,
    )
    run_and_show(partial(measure_all, plan), asdict(plan), as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
