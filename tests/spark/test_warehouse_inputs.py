"""Values that are of other types than the columns that are made of them, and that must be there."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark.jobs.deadletter import Redone, redo
from spark.jobs.options import WrongUsage
from spark.jobs.replay import backfill, swap_if_whole
from spark.jobs.warehouse import load
from spark.sinks.warehouse import TableFormat, Warehouse
from tests.clients.confluent import Confluent
from tests.spark.warehouse_runs import START_MS, by_offset, contents, loader, send

SCHEMA = "id bigint not null, ts bigint"
TIMES = "tests.spark.test_warehouse_inputs:times"


def times(rows: DataFrame) -> DataFrame:
    """Return rows with times made of epoch milliseconds."""
    return rows.withColumn("ts", F.timestamp_millis("ts"))


def seconds(warehouse: Warehouse) -> dict[int, int]:
    """Return times of a table, in seconds since its first record's, by offset."""
    rows = warehouse.rows(warehouse.generation())
    since = F.unix_seconds("ts") - START_MS // 1000
    return by_offset(rows.withColumn("since", since), "since")


@pytest.mark.parametrize("table_format", [TableFormat.parquet, TableFormat.iceberg])
def test_a_table_keeps_what_values_were_told_to_be(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
) -> None:
    # Given a table of times, made of numbers in place, whose id has to be there
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0,"ts":%d}' % START_MS, b'{"ts":%d}' % START_MS])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    warehouse = run().warehouse
    assert load(run(SCHEMA, TIMES)) == 2
    assert contents(warehouse) == ([0], [1])

    # When it is made anew by the same command, and loaded by one that names no columns
    swap_if_whole(run(SCHEMA, TIMES), backfill(run(SCHEMA, TIMES)))
    send(confluent, topic, [b'{"id":2,"ts":%d}' % (START_MS + 5_000), b'{"ts":1}', b'{"id":4}'])
    assert load(run(logic=TIMES)) == 3

    # Then it has the times, and what has no id is a dead letter, also if it is tried again
    assert seconds(warehouse) == {0: 0, 2: 5, 4: None}
    again = redo(run(logic=TIMES))
    assert again == Redone(settled=0, left={"is missing: id": 2})

    # And without the change, or with another type, it is refused as long as it has such times
    with pytest.raises(WrongUsage, match="ts is timestamp in the table, made of bigint"):
        load(run())
    with pytest.raises(WrongUsage, match="--schema: ts is timestamp in the table, not string"):
        load(run("ts string"))

    # When the id may be missing, then dead letters become rows
    assert redo(run("id bigint", TIMES)) == Redone(settled=2, left={})
    assert contents(warehouse)[0] == [0, 1, 2, 3, 4]
    assert by_offset(warehouse.rows(2), "id") == {0: 0, 1: None, 2: 2, 3: None, 4: 4}


def test_a_table_keeps_what_a_sample_said(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    # Given a table of times, made of numbers that nobody named
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0,"ts":%d}' % START_MS])
    run = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.parquet)
    load(run(logic=TIMES))

    # When the same command goes on
    send(confluent, topic, [b'{"id":1,"ts":%d}' % (START_MS + 1_000)])
    load(run(logic=TIMES))

    # Then
    assert seconds(run().warehouse) == {0: 0, 1: 1}
    assert contents(run().warehouse) == ([0, 1], [])
