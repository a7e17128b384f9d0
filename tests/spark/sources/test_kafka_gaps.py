"""Spark's own format("kafka"), unchanged, on logs with gaps: transactions, compaction, deletion."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from spark.sources.kafka import client_options
from tests.clients.long_logs import LongLogs, running_long_logs
from tests.clients.spark_session import Spark
from tests.spark.sources.kafka_logs import At, Batches, KafkaLogs, at

PATIENCE_S = 240
COMMITTED = {"isolation.level": "read_committed"}
COMPACTED = "compacted"
PADDING = "x" * 200
LOST = r"(?i)data.?loss|may have been lost"


@pytest.fixture(scope="module")
def long_logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongLogs]:
    with running_long_logs(tmp_path_factory.mktemp("long-logs")) as running:
        yield running


@pytest.fixture(scope="module")
def compacted(long_logs: LongLogs) -> list[At]:
    """Keys of which each but the last record is gone, gone ones at the end; what is left."""
    logs = KafkaLogs(bootstrap=long_logs.bootstrap)
    logs.create(COMPACTED, cleanup_policy="compact")
    for turn in range(3):
        logs.write(COMPACTED, *(f"k{key}={turn}{PADDING}" for key in range(20)))
    logs.transact(COMPACTED, "k0=aborted", "k1=aborted", commit=False)
    long_logs.await_compacted(COMPACTED)
    long_logs.restart()  # what it has in memory is served as it was written
    return [(0, 40 + key, f"2{PADDING}") for key in range(20)]


@pytest.fixture(scope="module")
def logs(bootstrap: str) -> KafkaLogs:
    return KafkaLogs(bootstrap=bootstrap)


def batch(spark: Spark, topic: str, properties: dict[str, str], **options: str) -> DataFrame:
    reader = spark.session.read.format("kafka").option("subscribe", topic)
    return reader.options(**client_options(spark.bootstrap, properties)).options(**options).load()


def stream(spark: Spark, bootstrap: str, topic: str, checkpoint: Path, **options: str) -> list[At]:
    """Return what a committed reader gets that goes on from its checkpoint to the end."""
    batches = Batches()
    reader = spark.session.readStream.format("kafka").option("subscribe", topic)
    reader = reader.options(**client_options(bootstrap, COMMITTED))
    frame = reader.options(**{"startingOffsets": "earliest", **options}).load()
    writer = frame.writeStream.foreachBatch(batches).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    assert query.awaitTermination(PATIENCE_S), "it does not end"
    return batches.at()


def test_transactions(spark: Spark, logs: KafkaLogs, topic: str, tmp_path: Path) -> None:
    # Given a committed, an aborted and an open transaction; each end of one takes an offset
    logs.create(topic)
    logs.transact(topic, "a", "b", commit=True)
    logs.transact(topic, "c", commit=False)
    open_one = logs.begin(topic, "d")

    # When
    uncommitted = at(batch(spark, topic, {}))
    committed = at(batch(spark, topic, COMMITTED))
    streamed = stream(spark, spark.bootstrap, topic, tmp_path)

    # Then
    assert uncommitted == [(0, 0, "a"), (0, 1, "b"), (0, 3, "c"), (0, 5, "d")]
    assert committed == streamed == [(0, 0, "a"), (0, 1, "b")]

    # And when the open one is committed, a stream goes on with its records
    open_one.commit_transaction()
    assert stream(spark, spark.bootstrap, topic, tmp_path) == [(0, 5, "d")]


def test_what_compaction_left(
    spark: Spark, long_logs: LongLogs, compacted: list[At], tmp_path: Path
) -> None:
    # When
    reader = spark.session.read.format("kafka").option("subscribe", COMPACTED)
    records = reader.options(**client_options(long_logs.bootstrap, COMMITTED)).load()
    streamed = stream(spark, long_logs.bootstrap, COMPACTED, tmp_path, maxOffsetsPerTrigger="15")

    # Then each batch of a stream may lie in a gap
    assert at(records) == compacted
    assert streamed == compacted


def test_a_batch_of_deleted_records(spark: Spark, logs: KafkaLogs, topic: str) -> None:
    # Given
    logs.create(topic)
    logs.write(topic, "a", "b", "c")
    logs.delete_before(topic, 0, 2)
    start = {"startingOffsets": f'{{"{topic}": {{"0": 0}}}}'}

    # Then
    with pytest.raises(Py4JJavaError, match=LOST):
        at(batch(spark, topic, {}, **start))
    assert at(batch(spark, topic, {}, **start, failOnDataLoss="false")) == [(0, 2, "c")]
    assert at(batch(spark, topic, {})) == [(0, 2, "c")]


def test_a_stream_whose_next_records_are_deleted(
    spark: Spark, logs: KafkaLogs, topic: str, tmp_path: Path
) -> None:
    # Given
    logs.create(topic)
    logs.write(topic, "a")
    assert stream(spark, spark.bootstrap, topic, tmp_path) == [(0, 0, "a")]
    logs.write(topic, "b", "c")
    logs.delete_before(topic, 0, 2)

    # Then
    with pytest.raises(StreamingQueryException, match=LOST):
        stream(spark, spark.bootstrap, topic, tmp_path)
    lenient = stream(spark, spark.bootstrap, topic, tmp_path, failOnDataLoss="false")
    assert lenient == [(0, 2, "c")]


def test_a_stream_whose_topic_is_made_again(
    spark: Spark, logs: KafkaLogs, topic: str, tmp_path: Path
) -> None:
    # Given
    logs.create(topic)
    logs.write(topic, "a", "b")
    stream(spark, spark.bootstrap, topic, tmp_path)
    logs.delete(topic)
    logs.create(topic)
    logs.write(topic, "c")

    # Then
    with pytest.raises(StreamingQueryException, match=LOST):
        stream(spark, spark.bootstrap, topic, tmp_path)
