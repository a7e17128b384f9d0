"""A little of all that the tests have Spark do, for the archive of classes (spark_archive.py)."""

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf

from spark.session import build_session


def main() -> None:
    """Do it, in folders that are gone afterwards."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        session = build_session(
            "classes", packages=(), warehouse=home / "warehouse", checkpoints=home / "checkpoints"
        )
        _queries(session, str(home / "rows"))
        _stream(session, str(home / "rows"), str(home / "counts"))
        session.stop()


def _queries(session: SparkSession, rows: str) -> None:
    odd = udf(lambda number: number % 2 == 1, "boolean")
    made = session.createDataFrame(
        [(number, f"{number}", b"") for number in range(100)], "n long, t string, b binary"
    )
    made.where(odd("n")).write.parquet(rows)
    twice = session.read.parquet(rows).join(made.select("n"), "n").groupBy("t").count().orderBy("t")
    assert len(twice.collect()) == 50


def _stream(session: SparkSession, rows: str, counts: str) -> None:
    def keep(batch: DataFrame, _number: int) -> None:
        batch.write.mode("append").json(counts)

    source = session.readStream.schema("n long, t string, b binary").parquet(rows)
    counted = source.groupBy((col("n") % 7).alias("seventh")).count()
    writer = counted.writeStream.outputMode("update").queryName("classes").foreachBatch(keep)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert session.read.json(counts).count() == 7


if __name__ == "__main__":
    main()
