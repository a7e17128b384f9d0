"""Write a topic with Spark: straight into the object store, and through brokers.

python -m bench.spark_write --records 2000000 --repeat 3; a broker with an embedded Postgres and a
directory as object store, in a temporary folder. Records are made by Spark as they are written, the
same for both ways; `made` tells what that costs alone. Each run writes to a topic of its own and
ends when the job does; afterwards the broker is asked whether all records are there. The connector
writes with its defaults, and with what a user who wants throughput would set.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from bench.cluster import Cluster
from bench.results import MeasurementFailed, Row
from bench.spark_log import MeasuredLog, measured_log
from bench.spark_runs import (
    CONNECTOR,
    DIRECT,
    Amount,
    Run,
    bench_session,
    measure,
    rows_of,
    run_and_show,
)

WARM_RECORDS: Final = 50_000
KEY_BYTES: Final = 11
KEYS: Final = 10_000
SEEN_S: Final = 30.0
CALL_S: Final = 10.0
GLANCE_S: Final = 0.1
TUNED: Final = "kafka, large batches"
LARGE_BATCHES: Final = {"kafka.linger.ms": "50", "kafka.batch.size": "500000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured.

    Attributes:
        record_bytes: of a value; its key has 11 more.
        codec: of both ways.
        repeat: writes of each way.
        threads: of Spark.
    """

    records: int
    record_bytes: int
    partitions: int
    codec: str
    repeat: int
    threads: int


class Writes:
    """Topics that come one after the other, and a session that fills them."""

    def __init__(self, log: MeasuredLog, session: SparkSession, plan: Plan) -> None:
        self._log = log
        self._session = session
        self._plan = plan
        self._cluster = Cluster(log.bootstrap)
        location = log.location
        brokers = {"kafka.bootstrap.servers": log.bootstrap}
        self._options: Mapping[str, tuple[str, Mapping[str, str]]] = {
            CONNECTOR: (CONNECTOR, brokers),
            TUNED: (CONNECTOR, {**brokers, **LARGE_BATCHES}),
            DIRECT: (DIRECT, {"postgres": location.postgres, "store": location.store}),
        }

    def events(self, records: int) -> DataFrame:
        """Return keyed JSON events, in as many tasks as Spark has threads."""
        number = F.format_string("%06d", F.col("id") % KEYS)
        head = F.concat(F.lit('{"event_id":"'), F.col("id"), F.lit('","page":"/p/'), number)
        value = F.concat(F.rpad(head, self._plan.record_bytes - 2, "x"), F.lit('"}'))
        rows = self._session.range(0, records, numPartitions=self._plan.threads)
        return rows.select(
            F.concat(F.lit("user-"), number).cast("binary").alias("key"),
            value.cast("binary").alias("value"),
        )

    def make(self, records: int) -> None:
        """Make events, and put them nowhere."""
        self.events(records).write.format("noop").mode("overwrite").save()

    def write(self, way: str, topic: str, records: int) -> None:
        """Append events to a topic."""
        name, options = self._options[way]
        writer = self.events(records).write.format(name).options(**options).mode("append")
        writer = writer.option("kafka.compression.type", self._plan.codec)
        writer.option("topic", topic).save()

    def run(self, way: str, records: int) -> Run:
        """Write to a new topic.

        Raises:
            MeasurementFailed: the broker does not have all of it.
        """
        topic = self._cluster.new_topic(self._plan.partitions)
        run = measure(self._log, lambda: self.write(way, topic, records))
        deadline_s = time.monotonic() + SEEN_S
        while (found := self._end(topic)) != records:
            if time.monotonic() > deadline_s:
                raise MeasurementFailed(f"{way}: {found} of {records} records are there")
            time.sleep(GLANCE_S)
        return run

    def compare(self, say: Callable[[str], None]) -> list[Row]:
        """Write in all ways in turn."""
        plan = self._plan
        for way in self._options:
            self.run(way, min(plan.records, WARM_RECORDS))
        self.make(min(plan.records, WARM_RECORDS))
        runs: dict[str, list[Run]] = {way: [] for way in self._options}
        ways, made = list(self._options), []
        for number in range(plan.repeat):
            made.append(measure(self._log, lambda: self.make(plan.records)))
            for way in ways if number % 2 == 0 else reversed(ways):
                run = self.run(way, plan.records)
                say(f"{way}: {run}")
                runs[way].append(run)
        amount = Amount(records=plan.records, size=plan.records * (plan.record_bytes + KEY_BYTES))
        return rows_of("write", {"made": made, **runs}, amount)

    def _end(self, topic: str) -> int:
        """Return how many offsets a topic has."""
        consumer = Consumer({"bootstrap.servers": self._log.bootstrap, "group.id": "nobody"})
        try:
            ends = (
                consumer.get_watermark_offsets(TopicPartition(topic, at), CALL_S)[1]
                for at in range(self._plan.partitions)
            )
            return sum(ends)
        finally:
            consumer.close()


def measure_all(plan: Plan, home: Path, say: Callable[[str], None]) -> list[Row]:
    """Start everything and write."""
    with (
        measured_log(home / "broker") as log,
        bench_session("bench-spark-write", home, plan.threads) as session,
    ):
        return Writes(log, session, plan).compare(say)


def main(
    *,
    records: Annotated[int, typer.Option(help="Of each run.", min=1)] = 2_000_000,
    record_bytes: Annotated[int, typer.Option(help="Of a value.", min=80)] = 100,
    partitions: Annotated[int, typer.Option(help="Of each topic.", min=1)] = 4,
    codec: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    repeat: Annotated[int, typer.Option(help="Writes of each way.", min=1)] = 3,
    threads: Annotated[int, typer.Option(help="Of Spark.", min=1)] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
) -> None:
    """Measure writes on this machine."""
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
