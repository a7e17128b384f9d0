"""Spark's own format("kafka"), unchanged, on this broker: batches that are read."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.testing import assertDataFrameEqual

from spark.sources.kafka import client_options
from tests.clients.spark_session import Spark
from tests.spark.sources.kafka_logs import KafkaLogs, at

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
TOPIC = "reads"


@pytest.fixture(scope="module")
def logs(bootstrap: str) -> KafkaLogs:
    """Two partitions: three records an hour apart, and two."""
    logs = KafkaLogs(bootstrap=bootstrap)
    logs.create(TOPIC, 2)
    for number in range(3):
        logs.write(TOPIC, f"k{number}=a{number}", timestamp_ms=START_MS + number * HOUR_MS)
    logs.write(TOPIC, "b0", partition=1, timestamp_ms=START_MS, headers=[("h", b"1"), ("h", None)])
    logs.write(TOPIC, "b1", partition=1, timestamp_ms=START_MS + HOUR_MS)
    return logs


ALL = [(0, 0, "a0"), (0, 1, "a1"), (0, 2, "a2"), (1, 0, "b0"), (1, 1, "b1")]


def read(spark: Spark, options: Mapping[str, object]) -> DataFrame:
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in options.items()
    }
    reader = spark.session.read.format("kafka").options(**client_options(spark.bootstrap, {}))
    return reader.options(**{"subscribe": TOPIC, **texts}).load()


@pytest.mark.usefixtures("logs")
def test_columns_are_what_was_sent(spark: Spark) -> None:
    # When
    records = spark.read(TOPIC).where("partition = 1")

    # Then
    hours = [datetime.fromtimestamp((START_MS + n * HOUR_MS) / 1000, UTC) for n in range(2)]
    headers = [Row(key="h", value=bytearray(b"1")), Row(key="h", value=None)]
    rows = [
        (None, b"b0", TOPIC, 1, 0, hours[0], 0, headers),
        (None, b"b1", TOPIC, 1, 1, hours[1], 0, None),
    ]
    assertDataFrameEqual(records, spark.session.createDataFrame(rows, records.schema))


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ALL),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, ALL),
        ({"startingOffsets": {TOPIC: {"0": 1, "1": -2}}}, ALL[1:]),
        ({"endingOffsets": {TOPIC: {"0": 1, "1": -1}}}, [ALL[0], *ALL[3:]]),
        ({"startingTimestamp": str(START_MS + HOUR_MS)}, [*ALL[1:3], ALL[4]]),
        ({"endingTimestamp": str(START_MS + HOUR_MS)}, [ALL[0], ALL[3]]),
        (
            {"startingOffsetsByTimestamp": {TOPIC: {"0": START_MS + 1, "1": START_MS}}},
            [*ALL[1:3], *ALL[3:]],
        ),
        (
            {"endingOffsetsByTimestamp": {TOPIC: {"0": START_MS + 2 * HOUR_MS, "1": START_MS}}},
            ALL[:2],
        ),
        (
            {
                "startingTimestamp": str(START_MS + 2 * HOUR_MS),  # partition 1 has none so late
                "startingOffsetsByTimestampStrategy": "latest",
            },
            [ALL[2]],
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_where_a_read_begins_and_ends(
    spark: Spark, options: dict[str, object], expected: list[tuple[int, int, str]]
) -> None:
    assert at(read(spark, options)) == expected


@pytest.mark.usefixtures("logs")
def test_a_time_after_all_records_is_refused_by_default(spark: Spark) -> None:
    with pytest.raises(PySparkException, match="No offset matched from request of topic-partition"):
        at(read(spark, {"startingTimestamp": str(START_MS + 2 * HOUR_MS)}))


@pytest.mark.usefixtures("logs")
def test_a_cut_is_read_and_nothing_else(spark: Spark) -> None:
    # Given one partition of two
    cut = {
        "assign": {TOPIC: [0]},
        "startingOffsets": {TOPIC: {"0": 1}},
        "endingOffsets": {TOPIC: {"0": 3}},
    }

    # When
    reader = spark.session.read.format("kafka")
    reader = reader.options(**{name: json.dumps(value) for name, value in cut.items()})
    records = reader.options(**client_options(spark.bootstrap, {})).load()

    # Then
    assert at(records) == ALL[1:3]


@pytest.mark.usefixtures("logs")
def test_min_partitions_makes_more_tasks_of_the_same_records(spark: Spark) -> None:
    records = read(spark, {"minPartitions": "5"})
    assert records.rdd.getNumPartitions() == 5
    assert at(records) == ALL


def test_a_pattern_reads_topics_whose_names_have_it_somewhere(
    spark: Spark, logs: KafkaLogs
) -> None:
    # Given
    for topic in ("pattern-a", "pattern-b", "other-pattern-c"):
        logs.create(topic)
        logs.write(topic, f"in {topic}")

    # When
    pattern = {**client_options(spark.bootstrap, {}), "subscribePattern": "^pattern-"}
    records = spark.session.read.format("kafka").options(**pattern).load()

    # Then
    assertDataFrameEqual(
        records.selectExpr("topic", "CAST(value AS STRING) AS value"),
        [Row(topic=topic, value=f"in {topic}") for topic in ("pattern-a", "pattern-b")],
    )
