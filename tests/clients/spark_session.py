"""A local Spark session with the `kafka` format, and records in and out of it."""

import base64
import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark.session import Package, build_session
from tests.clients.cache import cache_directory, one_at_a_time
from tests.clients.records import ConsumedRecord, SentRecord
from tests.clients.spark_archive import driver_environment

SENT_SCHEMA = "key binary, value binary, headers array<struct<key: string, value: binary>>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """Spark's batch reads and writes, pointed at one cluster.

    Attributes:
        bootstrap: HOST:PORT.
    """

    session: SparkSession
    bootstrap: str

    def read(self, topic: str, **options: str) -> DataFrame:
        """Return a topic from its beginning to its end; `options` as the format names them."""
        reader = self.session.read.format("kafka").option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("includeHeaders", "true").options(**options).load()

    def consume(self, topic: str) -> list[ConsumedRecord]:
        """Read all partitions from the beginning to their ends, without a group."""
        return records_of(self.read(topic))

    def produce(self, topic: str, records: Iterable[SentRecord], *, codec: str = "none") -> None:
        """Send records from one task, so that their order is theirs; timestamps are Spark's."""
        rows = [(record.key, record.value, _header_rows(record)) for record in records]
        frame = self.session.createDataFrame(rows, SENT_SCHEMA).coalesce(1)
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        writer.option("topic", topic).option("kafka.compression.type", codec).save()


def local_session(directory: Path) -> SparkSession:
    """Start Spark with all packages; the first start on a machine fetches their jars.

    Args:
        directory: for tables that are named, and for checkpoints of queries that name none.

    Raises:
        ProgramMissing: there is no Java, and Debian's cannot be installed.
    """
    os.environ.update(driver_environment())  # also that of streamctl sql, and of jobs
    with one_at_a_time("ivy"):
        return build_session(
            "streamhouse-tests",
            packages=tuple(Package),
            warehouse=directory / "warehouse",
            checkpoints=directory / "checkpoints",
            settings={
                "spark.jars.ivy": str(cache_directory() / "ivy"),
            },
        )


def _header_rows(record: SentRecord) -> list[tuple[str, bytes | None]] | None:
    return list(record.headers) or None


def records_of(frame: DataFrame) -> list[ConsumedRecord]:
    """Return the rows of the `kafka` format's read, partition after partition.

    They come through text files: collect() takes twice as long for 300,000 rows and
    leaves sockets to the garbage collector.
    """
    time = "unix_millis(timestamp) as timestamp_ms"
    columns = f"partition, offset, {time}, timestampType, key, value, headers"
    rows = frame.selectExpr(f"to_json(struct({columns}), map('ignoreNullFields', 'false'))")
    with tempfile.TemporaryDirectory() as directory:
        rows.write.mode("overwrite").text(directory)
        parts = sorted(Path(directory).glob("part-*"))  # one per task, hence per partition
        return [
            _record(json.loads(line)) for part in parts for line in part.read_text().splitlines()
        ]


def _record(row: dict[str, Any]) -> ConsumedRecord:
    assert row["timestampType"] == 0, f"not CreateTime: {row}"
    return ConsumedRecord(
        partition=row["partition"],
        offset=row["offset"],
        timestamp_ms=row["timestamp_ms"],
        key=_bytes(row["key"]),
        value=_bytes(row["value"]),
        headers=tuple((header["key"], _bytes(header["value"])) for header in row["headers"] or ()),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
