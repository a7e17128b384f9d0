"""Spark's own format("kafka"), unchanged, on this broker: streams."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from spark.sources.kafka import client_options
from tests.clients.spark_session import Spark
from tests.spark.sources.kafka_logs import Batches, KafkaLogs

PATIENCE_S = 240
START_MS = 1_700_000_000_000
LIVE = {"processingTime": "50 milliseconds"}
WHAT_IS_THERE = {"availableNow": True}


@pytest.fixture(scope="module")
def logs(bootstrap: str) -> KafkaLogs:
    return KafkaLogs(bootstrap=bootstrap)


@pytest.fixture
def start(spark: Spark, topic: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Start a query on `topic` from its one checkpoint; whatever runs at the end is stopped."""
    queries: list[StreamingQuery] = []

    def start_one(trigger: dict[str, Any], **options: str) -> tuple[StreamingQuery, Batches]:
        batches = Batches()
        reader = spark.session.readStream.format("kafka")
        reader = reader.options(**client_options(spark.bootstrap, {}))
        chosen = {} if "subscribePattern" in options else {"subscribe": topic}
        frame = reader.options(**{**chosen, **options}).load()
        writer = frame.writeStream.foreachBatch(batches).trigger(**trigger)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        queries.append(query)
        return query, batches

    yield start_one
    for query in queries:
        query.stop()


def run(started: tuple[StreamingQuery, Batches]) -> Batches:
    query, batches = started
    assert query.awaitTermination(PATIENCE_S), "it does not end"
    return batches


def wait_for(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_available_now_reads_what_there_is_and_goes_on_from_there(
    start: Callable[..., Any], logs: KafkaLogs, topic: str
) -> None:
    # Given
    logs.create(topic, 2)
    logs.write(topic, "a", "b", "c")

    # When
    first = run(start(WHAT_IS_THERE, startingOffsets="earliest", maxOffsetsPerTrigger="2"))
    logs.write(topic, "d", partition=1)
    second = run(start(WHAT_IS_THERE, startingOffsets="earliest"))

    # Then
    assert first.at() == [(0, 0, "a"), (0, 1, "b"), (0, 2, "c")]
    assert [len(rows) for rows in first.rows.values()] == [2, 1]
    assert second.at() == [(1, 0, "d")]


def test_a_live_query_sees_what_comes_after_its_start(
    start: Callable[..., Any], logs: KafkaLogs, topic: str
) -> None:
    # Given
    logs.create(topic)
    logs.write(topic, "before")

    # When
    query, batches = start(LIVE, startingOffsets="latest")
    query.processAllAvailable()
    logs.write(topic, "after")
    query.processAllAvailable()
    logs.write(topic, "later")
    query.processAllAvailable()

    # Then
    assert batches.at() == [(0, 1, "after"), (0, 2, "later")]
    assert len(batches.rows) >= 2
    progress = query.lastProgress
    assert json.loads(progress["sources"][0]["endOffset"]) == {topic: {"0": 3}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": {"0": 2}}, "c"),
        ({"startingOffsetsByTimestamp": {"0": START_MS + 1}}, "bc"),
        ({"startingTimestamp": START_MS + 2}, "c"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_where_a_stream_begins(
    start: Callable[..., Any], logs: KafkaLogs, topic: str, options: dict[str, Any], expected: str
) -> None:
    # Given
    logs.create(topic)
    for number, value in enumerate("abc"):
        logs.write(topic, value, timestamp_ms=START_MS + number)

    # When
    texts = {
        name: json.dumps({topic: value} if isinstance(value, dict) else value)
        for name, value in options.items()
    }
    batches = run(start(WHAT_IS_THERE, minPartitions="2", **texts))

    # Then
    assert "".join(value for _, _, value in batches.at()) == expected


def test_a_pattern_finds_topics_that_are_made_while_it_runs(
    start: Callable[..., Any], logs: KafkaLogs, topic: str
) -> None:
    # Given
    logs.create(f"{topic}-a")
    logs.write(f"{topic}-a", "a0")
    pattern = {"subscribePattern": f"^{topic}-", "startingOffsets": "earliest"}
    query, batches = start(LIVE, **pattern)
    query.processAllAvailable()

    # When a topic is made, and another that it does not fit
    for name in (f"{topic}-b", f"other-{topic}-c"):
        logs.create(name)
        logs.write(name, f"{name[-1]}0")

    # Then
    wait_for(lambda: len(batches.at()) >= 2, "the new topic is not found")
    query.processAllAvailable()
    assert batches.at() == [(0, 0, "a0"), (0, 0, "b0")]
