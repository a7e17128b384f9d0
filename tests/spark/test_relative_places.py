"""Relative paths are those of this process, whatever directory Java works in."""

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark.java_directory import absolute
from spark.jobs import revenue, warehouse_options
from spark.jobs.options import PipelineOptions, UpkeepOptions, run
from spark.jobs.warehouse_options import open_session
from spark.sinks.batch_tables import BatchTables
from spark.sinks.warehouse import TableFormat
from spark.upkeep.settings import report_directory
from tests.clients.confluent import Confluent
from tests.spark.warehouse_runs import send

PAYMENT = b'{"event_id":"e","order_id":7,"event_type":"paid","ts":"2026-06-24T10:00:00Z"}'


def test_results_of_a_job_are_where_it_was_started(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    location_options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a process that works in another directory than its Java does, and prices there
    monkeypatch.chdir(tmp_path)
    columns = {"order_id": pa.array([7]), "amount": pa.array([Decimal("2.50")])}
    pq.write_table(pa.table(columns), "prices.parquet")
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [PAYMENT])

    # When a job is told relative paths
    places = ("--output", "deep/out", "--prices", "prices.parquet", "--report", "report")
    log = ("--source", "direct", "--data", location_options["data"], "--topic", topic)
    monkeypatch.setattr(sys, "argv", ["revenue", *log, *places])
    with pytest.raises(SystemExit) as ended:
        run(revenue.main)
    assert ended.value.code == 0

    # Then it reads and writes there
    tables = BatchTables(session=session, path=str(tmp_path / "deep" / "out"))
    (row,) = tables.table("running", revenue.ROWS["running"]).collect()
    assert row["revenue"] == Decimal("2.50")
    assert (tmp_path / "deep" / "out.checkpoint" / "commits" / "0").exists()
    assert (tmp_path / "report" / "index.html").exists()


def test_paths_become_absolute_and_urls_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("a/b") == f"{tmp_path}/a/b"
    assert absolute("a:b") == f"{tmp_path}/a:b"
    for place in ("/a/b", "s3a://bucket/a", "file:/a", "file:///a", "hdfs://host:1/a"):
        assert absolute(place) == place


def test_a_catalog_of_named_tables_and_reports_are_where_the_job_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given what takes down with which warehouse a session is made
    monkeypatch.chdir(tmp_path)
    built: Any = Mock()
    monkeypatch.setattr(warehouse_options, "build_session", built)

    # When a table has a name, or a relative path
    for output, directory in (("iceberg.a.b", ""), ("orders", ""), ("data/orders", "/data")):
        options = PipelineOptions(output=output)
        open_session("warehouse", options, TableFormat.iceberg)

        # Then that is below this directory
        assert built.call_args.kwargs["warehouse"] == f"{tmp_path}{directory}"
    assert report_directory(UpkeepOptions(report=Path("report"))) == tmp_path / "report"
    assert (tmp_path / "report").is_dir()
