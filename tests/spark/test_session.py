"""The session of spark.session: what every job builds on works in one session."""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pandas as pd
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from pyspark.testing import assertDataFrameEqual

from spark.python_daemon import ZIP_OF_SPARK
from spark.session import Package, UnsupportedSpark, build_session, spare_workers
from spark.sinks.iceberg_tables import IcebergTable
from spark.sources.cut import Range
from tests.clients.spark_archive import driver_environment

REPOSITORY = Path(__file__).parents[2]
COUNTING = """
import sys
from spark.java_directory import absolute
from spark.session import build_session
numbers = build_session("counting", packages=()).range(3)
print(numbers.count())
for place in sys.argv[1:]:
    numbers.write.parquet(absolute(place))
"""


def counted_in(directory: Path, *places: str) -> str:
    """Have a session of its own count to three, there too, and return what it said."""
    paths = {"PYTHONPATH": str(REPOSITORY)}
    ended = subprocess.run(
        [sys.executable, "-c", COUNTING, *places],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, **driver_environment(), **paths},
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class Numbers(DataSource):
    """A source whose tasks need this project's packages, pyarrow and this module."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "start long, end long"

    def reader(self, schema: StructType) -> "NumbersReader":
        return NumbersReader()


class NumbersReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(Range(start=0, end=5)), InputPartition(Range(start=5, end=9))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        offsets: Range = partition.value
        columns = [pa.array([offsets.start]), pa.array([offsets.end])]
        yield pa.RecordBatch.from_arrays(columns, names=["start", "end"])


def test_a_python_source_gives_arrow_batches(session: SparkSession) -> None:
    # Given
    session.dataSource.register(Numbers)

    # When
    numbers = session.read.format("numbers").load()

    # Then
    assertDataFrameEqual(numbers, [Row(start=0, end=5), Row(start=5, end=9)])
    assert len(numbers.toPandas()) == 2


def test_tables_of_iceberg_and_delta_in_one_session(session: SparkSession) -> None:
    # Given
    rows = session.range(5).withColumnRenamed("id", "number")

    # When
    rows.writeTo("iceberg.tests.numbers").using("iceberg").create()
    rows.write.format("delta").saveAsTable("delta_numbers")
    session.sql("UPDATE delta_numbers SET number = number + 10")

    # Then
    assertDataFrameEqual(session.table("iceberg.tests.numbers"), rows)
    assertDataFrameEqual(session.table("delta_numbers"), rows.selectExpr("number + 10 AS number"))


def test_a_table_of_the_catalog_is_what_other_processes_made_of_it(session: SparkSession) -> None:
    # Given a table of Iceberg that two sessions have read, each with a catalog of its own
    table, other = IcebergTable(name="iceberg.tests.shared"), session.newSession()
    table.create(session, StructType().add("number", "long"), ())
    assert table.run(session) is table.run(other) is None
    properties = session.sql(f"SHOW TBLPROPERTIES {table.name}").collect()
    assert ("write.metadata.delete-after-commit.enabled", "true") in map(tuple, properties)

    # When one of them takes it, then the other one sees that, whatever Spark takes for a secret
    topics = {"orders": "its id", "tokens-url": "another id"}
    table.take(other, "second", topics)
    assert table.run(session) == "second"
    assert table.topics(session) == topics


def test_state_is_kept_in_rocksdb(session: SparkSession, tmp_path: Path) -> None:
    # Given
    numbers = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = numbers.groupBy("value").count().writeStream.format("noop").outputMode("update")

    # When
    query = counts.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()

    # Then
    progress = query.lastProgress
    assert progress is not None
    assert "rocksdbPutCount" in progress["stateOperators"][0]["customMetrics"]


def test_packages_of_the_installed_spark() -> None:
    spark_version = pyspark.__version__
    assert Package.KAFKA.coordinates() == (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark_version}"
    )
    assert Package.ICEBERG.coordinates().endswith("4.0_2.13:1.10.1")
    assert Package.DELTA.coordinates().endswith("2.13:4.0.0")


def test_a_package_that_is_not_known_names_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "9.1.0")
    with pytest.raises(UnsupportedSpark, match=r"iceberg .* pyspark 9\.1\.0; install 4\.0\.\*"):
        Package.ICEBERG.coordinates()


def test_a_session_that_is_there_is_given_again(session: SparkSession) -> None:
    assert build_session("another", packages=()) is session


def test_workers_do_without_zips_and_jars_that_nobody_imports_from(
    session: SparkSession, tmp_path: Path
) -> None:
    # Given jars of a user, one of which has a module, beside those of Spark's packages
    context = session.sparkContext
    for name, member in (("module.jar", "added_module.py"), ("classes.jar", "Added.class")):
        with ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(member, "ANSWER = 42")
        context.addPyFile(str(tmp_path / name))
    spare_workers(context)

    # When a worker is asked where it imports from
    rows = session.range(1).mapInPandas(paths, "path string").collect()

    # Then there is no zip of pyspark's own, and no jar, which it would read anew before each task,
    # but for those that have modules
    assert rows
    assert not [row.path for row in rows if ZIP_OF_SPARK.search(row.path)]
    jars = {Path(row.path).name for row in rows if row.path.endswith(".jar")}
    assert {name.partition("_2.13")[0] for name in jars} == {"module.jar", "io.delta_delta-spark"}

    # And it imports from these
    rows = session.range(1).mapInPandas(answers, "answer int").collect()
    assert [row.answer for row in rows] == [42]


def answers(frames: Iterable[Any]) -> Iterable[Any]:
    module = importlib.import_module("added_module")
    for _ in frames:
        yield pd.DataFrame({"answer": [module.ANSWER]})


def paths(frames: Iterable[Any]) -> Iterable[Any]:
    for _ in frames:
        yield pd.DataFrame({"path": [*sys.path, *sys.path_importer_cache]})


@pytest.mark.parametrize("there_before", [[], ["artifacts"]])
def test_a_session_leaves_nothing_in_its_directory(tmp_path: Path, there_before: list[str]) -> None:
    # Given a directory, which may have a folder of the name of Spark's
    for name in there_before:
        (tmp_path / name).mkdir()

    # When a session worked there, then what it made there goes with its Java, a moment after it
    assert counted_in(tmp_path) == "3\n"
    deadline = time.monotonic() + 20
    while (
        there := [str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*")]
    ) != there_before:
        assert time.monotonic() < deadline, there
        time.sleep(0.1)


def test_a_session_works_where_spark_cannot_make_its_folder(tmp_path: Path) -> None:
    # Given a directory in which the name of Spark's folder is taken
    (tmp_path / "artifacts").write_text("ours")

    # When a session works there, then it has another one for that
    assert counted_in(tmp_path, "out") == "3\n"
    assert (tmp_path / "artifacts").read_text() == "ours"

    # And what it wrote stays when that one goes
    assert (tmp_path / "out" / "_SUCCESS").exists()
