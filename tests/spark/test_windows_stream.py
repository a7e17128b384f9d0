"""The same window functions under Spark's own watermark, and what that does to late payments."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark.tables import windows
from tests.spark.shopflow import START

PAYMENTS = "key string, event_time timestamp, amount decimal(18,2)"


def test_tumbling_windows_close_by_the_watermark_of_a_stream(
    session: SparkSession, tmp_path: Path
) -> None:
    # Given payments in three files, which a stream reads one a batch: out of order and late ones
    batches = {
        "0": [(0, 10), (8, 25), (3, 5)],  # minute, amount
        "1": [(31, 60), (9, 7)],
        "2": [(50, 3)],
        "3": [(4, 1), (46, 2)],  # minute 4 is in a window that was closed at 26
    }
    for name, paid in batches.items():
        rows = [("k", START + timedelta(minutes=at), Decimal(amount)) for at, amount in paid]
        frame = session.createDataFrame(rows, PAYMENTS)
        frame.coalesce(1).write.parquet(str(tmp_path / "payments" / f"batch={name}"))

    # When the table function runs on the stream
    stream = session.readStream.schema(PAYMENTS).option("maxFilesPerTrigger", 1)
    payments = stream.parquet(str(tmp_path / "payments" / "*"))
    in_time = payments.withWatermark("event_time", "5 minutes")
    revenue = windows.tumbling(in_time, timedelta(minutes=10))
    written = revenue.writeStream.format("parquet").outputMode("append")
    written = written.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = written.trigger(availableNow=True).start(str(tmp_path / "windows"))
    query.awaitTermination()

    # Then windows came out when they were closed, and minute 4 is lost: Spark only counts it
    sums = [(0, Decimal(47), 4), (30, Decimal(60), 1)]
    expected = [
        ("tumbling", None, START + timedelta(minutes=at), START + timedelta(minutes=at + 10), *each)
        for at, *each in sums
    ]
    found = session.read.schema(windows.SCHEMA).parquet(str(tmp_path / "windows"))
    assertDataFrameEqual(found, session.createDataFrame(expected, windows.SCHEMA))
    dropped = [
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    ]
    assert sum(dropped) == 1
