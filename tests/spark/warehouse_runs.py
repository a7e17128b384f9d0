"""Runs of the warehouse's jobs in the session of the tests, and what is in their tables."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from spark.jobs.loading import Loading
from spark.jobs.logic import UnknownFields
from spark.jobs.options import PipelineOptions
from spark.jobs.warehouse_options import make_loading
from spark.sinks.warehouse import TableFormat, Warehouse
from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord

FORMATS: Final = tuple(TableFormat)
LAKES: Final = (TableFormat.delta, TableFormat.iceberg)
START_MS: Final = 1_782_295_200_000  # 2026-06-24T10:00:00Z

Load = Callable[..., Loading]


def loader(
    session: SparkSession, bootstrap: str, topic: str, directory: Path, table_format: TableFormat
) -> Load:
    """Return what makes a run on a topic and a table, with the options it is given."""
    session.conf.set("spark.databricks.delta.snapshotPartitions", "1")
    options = PipelineOptions(
        bootstrap=bootstrap,
        topics=(topic,),
        output=str(directory / "orders"),
        checkpoint=str(directory / "checkpoint"),
    )

    def make(
        schema: str | None = None,
        logic: str | None = None,
        unknown_fields: UnknownFields | None = None,
    ) -> Loading:
        return make_loading(
            session,
            options,
            table_format=table_format,
            schema=schema,
            logic=logic,
            unknown_fields=unknown_fields,
        )

    return make


def send(confluent: Confluent, topic: str, values: Iterable[bytes | None]) -> None:
    """Send values to a topic of one partition."""
    records = [
        SentRecord(key=b"k", value=value, headers=(("h", b"1"),), timestamp_ms=START_MS)
        for value in values
    ]
    confluent.produce(topic, records)


def make_again(confluent: Confluent, topic: str, values: Iterable[bytes | None]) -> None:
    """Delete a topic of one partition, and make it under its name with other values."""
    admin = AdminClient({"bootstrap.servers": confluent.bootstrap})
    admin.delete_topics([topic])[topic].result(timeout=30)
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, values)


def offsets(frame: DataFrame, column: str) -> list[int]:
    """Return a column of offsets in order; one that is there twice is there twice."""
    return sorted(row[0] for row in frame.select(column).collect())


def contents(warehouse: Warehouse) -> tuple[list[int], list[int]]:
    """Return the offsets of the table's rows, and of its dead letters."""
    generation = warehouse.generation()
    rows = offsets(warehouse.rows(generation), "_kafka_offset")
    return rows, offsets(warehouse.dead_letters(generation), "offset")


def by_offset(frame: DataFrame, column: str) -> dict[int, Any]:
    """Return a column of rows by their offset."""
    return {row[0]: row[1] for row in frame.select("_kafka_offset", column).collect()}
