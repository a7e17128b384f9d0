"""Batches that come again: the driver died between the two tables, or lost its checkpoint."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark.jobs.logic import UnknownFields
from spark.jobs.options import JobFailed
from spark.jobs.warehouse import load
from spark.sinks.delta_tables import DeltaTable
from spark.sinks.iceberg_tables import IcebergTable
from spark.sinks.tables import Batch
from spark.sinks.warehouse import TableFormat
from spark.tables.deadletter import LEFT_OUT
from tests.clients.confluent import Confluent
from tests.spark.warehouse_runs import FORMATS, LAKES, contents, loader, send


@pytest.mark.parametrize("table_format", LAKES)
def test_a_driver_that_dies_between_rows_and_dead_letters(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a batch whose rows were committed, and whose dead letters were not
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}', b'{"id":1,"new":1}', b"bad"])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    kind = DeltaTable if table_format is TableFormat.delta else IcebergTable
    append = kind.append

    def dies(self: Any, rows: DataFrame, batch: Batch, *, after: int | None) -> int | None:
        if "dead_letters" in self.name:
            raise ConnectionResetError("the driver died")
        return append(self, rows, batch, after=after)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "append", dies)
        with pytest.raises(StreamingQueryException, match="the driver died"):
            load(run("id bigint", unknown_fields=UnknownFields.reject))
    assert contents(run().warehouse) == ([0], [])

    # When the next start has other logic, by which one of the dead letters is a row
    loading = run(unknown_fields=UnknownFields.ignore)
    load(loading)

    # Then each record is in one of the tables
    assert contents(loading.warehouse) == ([0], [1, 2])
    reasons = {row["reason"] for row in loading.warehouse.dead_letters(1).collect()}
    assert LEFT_OUT in reasons

    # And when the checkpoint is lost and all comes again, with news, then they still are
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    send(confluent, topic, [b'{"id":3}', b"bad"])
    load(run())
    assert contents(loading.warehouse) == ([0, 3], [1, 2, 4])


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_checkpoint_that_was_put_back_is_refused(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
) -> None:
    # Given a table that was loaded twice, and the checkpoint as it was in between
    confluent.create_topic(topic, partition_count=1)
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    send(confluent, topic, [b'{"id":0}'])
    load(run())
    checkpoint, older = tmp_path / "checkpoint", tmp_path / "older"
    shutil.copytree(checkpoint, older)
    send(confluent, topic, [b'{"id":1}', b"bad"])
    load(run())

    # When that is put back, and records come, then they are not taken for what the table has
    checkpoint.rename(tmp_path / "newer")
    older.rename(checkpoint)
    send(confluent, topic, [b'{"id":3}', b"bad"])
    with pytest.raises(JobFailed, match=r"put back from an older copy: .* has batch 1 of it"):
        load(run())

    # And with the newer one they are loaded
    checkpoint.rename(older)
    (tmp_path / "newer").rename(checkpoint)
    load(run())
    assert contents(run().warehouse) == ([0, 1, 3], [2, 4])
