"""What queries do shows up in Prometheus: over HTTP and in a file."""

import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from spark.progress import watched
from spark.query_metrics import QueryMetrics, records_behind
from spark.sources.kafka import client_options
from tests.clients.spark_session import Spark
from tests.spark.sources.kafka_logs import KafkaLogs

PATIENCE_S = 240
PREFIX = "streamhouse_spark_"
Samples = dict[tuple[str, ...], float]


def samples(text: str) -> Samples:
    """Return values by name without prefix and the labels' values in order of their names."""
    return {
        (
            sample.name.removeprefix(PREFIX),
            *(value for _, value in sorted(sample.labels.items())),
        ): (sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def records_of(spark: Spark, topic: str) -> DataFrame:
    options = {**client_options(spark.bootstrap, {}), "subscribe": topic}
    reader = spark.session.readStream.format("kafka").options(**options)
    return reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 2).load()


def test_a_query_and_its_executors_are_counted(spark: Spark, topic: str, tmp_path: Path) -> None:
    # Given
    logs, file = KafkaLogs(bootstrap=spark.bootstrap), tmp_path / "spark.prom"
    logs.create(topic)
    logs.write(topic, "a", "b", "a")
    counts = records_of(spark, topic).groupBy("value").count().writeStream.outputMode("update")
    counts = counts.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))

    # When
    with watched(spark.session, port=0, textfile=file) as served:
        query = counts.queryName("counting").trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S)
        spark.session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(PATIENCE_S * 1000)
        with urllib.request.urlopen(
            f"http://{served.address}/metrics", timeout=PATIENCE_S
        ) as answer:
            over_http = samples(answer.read().decode())

    # Then
    in_file = samples(file.read_text())
    for found in (over_http, in_file):
        assert found["batches_total", "counting"] == 2
        assert found["input_rows_total", "counting"] == 3
        assert found["records_behind", "counting", topic] == 0
        assert found["state_rows", "0 stateStoreSave", "counting"] == 2
        assert found["batch_seconds_count", "counting"] == 2
        assert found["phase_seconds_total", "addBatch", "counting"] > 0
        assert found["query_running", "counting"] == 0
        assert found["queries_ended_total", "stopped", "counting"] == 1
        assert found["tasks_total", "driver", "succeeded"] > 0
        assert found["cores", "driver"] == 2


def test_a_query_that_fails_is_counted_as_failed(spark: Spark, topic: str, tmp_path: Path) -> None:
    # Given
    logs, file = KafkaLogs(bootstrap=spark.bootstrap), tmp_path / "spark.prom"
    logs.create(topic)
    logs.write(topic, "a")
    bad = records_of(spark, topic).selectExpr("raise_error('bad') AS value").writeStream
    bad = bad.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))

    # When
    with watched(spark.session, textfile=file):
        query = bad.queryName("failing").trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException, match="bad"):
            query.awaitTermination(PATIENCE_S)

    # Then
    assert samples(file.read_text())["queries_ended_total", "failed", "failing"] == 1


def progress(**changes: Any) -> dict[str, Any]:
    """Return what Spark says of a batch, shortened."""
    common: dict[str, Any] = {
        "id": "5f2c",
        "name": None,
        "timestamp": "2026-01-02T03:04:05.000Z",
        "batchId": 7,
        "batchDuration": 1500,
        "numInputRows": 10,
        "durationMs": {"addBatch": 1000, "walCommit": 500, "triggerExecution": 1500},
        "eventTime": {"watermark": "1970-01-01T00:01:00.000Z"},
        "stateOperators": [],
        "sources": [],
        "sink": {"numOutputRows": -1},
    }
    return {**common, **changes}


def test_a_query_without_a_name_is_known_by_its_id() -> None:
    # Given
    registry = CollectorRegistry()
    metrics = QueryMetrics(registry)

    # When
    metrics.progressed(progress())
    metrics.progressed(progress(durationMs={"latestOffset": 2, "triggerExecution": 2}))

    # Then
    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"{PREFIX}{name}", {"query": "5f2c", **labels})

    assert value("batches_total") == 1
    assert value("batch_id") == 7
    assert value("output_rows_total") == 0
    assert value("watermark_timestamp_seconds") == 60
    assert value("phase_seconds_total", phase="walCommit") == 0.5
    assert value("phase_seconds_total", phase="triggerExecution") is None


@pytest.mark.parametrize(
    ("latest", "end", "behind"),
    [
        ('{"t": {"0": 9, "1": 4}}', '{"t": {"0": 5, "1": 4}}', {"t": 4}),
        (
            {"offsets": {"t": {"0": 9}}, "topicIds": {"t": "x"}},
            {"offsets": {"t": {"0": 9}}},
            {},  # the direct source: Spark tells no ends but those of the batch
        ),
        ('{"t": {"0": 3}}', '{"t": {"0": 5}}', {"t": 0}),  # made again meanwhile
        (None, '{"t": {"0": 5}}', {}),
        (7, 5, {}),
    ],
)
def test_records_behind(latest: object, end: object, behind: dict[str, int]) -> None:
    source = {"latestOffset": latest, "endOffset": end}
    assert records_behind(progress(sources=[source])) == behind
