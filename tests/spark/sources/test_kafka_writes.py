"""Spark's own format("kafka"), unchanged, on this broker: batches and streams that are written."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark.sources.kafka import client_options
from tests.clients.confluent import Confluent
from tests.clients.spark_session import Spark
from tests.spark.sources.kafka_logs import KafkaLogs

SCHEMA = (
    "topic string, partition int, key string, value string,"
    " headers array<struct<key: string, value: binary>>"
)


def test_rows_say_where_they_go(
    session: SparkSession, confluent: Confluent, bootstrap: str, topic: str
) -> None:
    # Given
    other = f"{topic}-other"
    confluent.create_topic(topic, partition_count=3)
    confluent.create_topic(other, partition_count=1)
    rows = [
        (topic, 2, "k", "v", [("h", b"1"), ("h", b"2")]),
        (topic, 0, None, None, None),
        (other, None, "", "", []),
    ]

    # When
    frame = session.createDataFrame(rows, SCHEMA)
    frame.write.format("kafka").options(**client_options(bootstrap, {})).save()

    # Then
    by_partition = {record.partition: record for record in confluent.consume(topic)}
    assert sorted(by_partition) == [0, 2]
    assert (by_partition[0].key, by_partition[0].value) == (None, None)
    assert (by_partition[2].key, by_partition[2].value) == (b"k", b"v")
    assert by_partition[2].headers == (("h", b"1"), ("h", b"2"))
    (record,) = confluent.consume(other)
    assert (record.key, record.value, record.headers) == (b"", b"", ())


def test_what_the_broker_refuses_fails_the_write(
    session: SparkSession, confluent: Confluent, bootstrap: str, topic: str
) -> None:
    # Given
    confluent.create_topic(topic, partition_count=1, configs={"max.message.bytes": "1000"})
    large = session.range(1).selectExpr("repeat('x', 2000) AS value")

    # When
    with pytest.raises(Py4JJavaError, match="RecordTooLarge"):
        large.write.format("kafka").options(**client_options(bootstrap, {})).option(
            "topic", topic
        ).save()

    # Then
    assert confluent.consume(topic) == []


def test_a_stream_is_copied_with_its_headers(
    spark: Spark, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    # Given
    copy, logs = f"{topic}-copy", KafkaLogs(bootstrap=spark.bootstrap)
    logs.create(topic, 2)
    logs.create(copy, 2)
    logs.write(topic, "k=v", "k=w", partition=1, headers=[("h", b"1")])

    def copy_what_is_there() -> None:
        reader = spark.session.readStream.format("kafka").option("subscribe", topic)
        reader = reader.options(**client_options(spark.bootstrap, {}))
        records = reader.option("startingOffsets", "earliest").option("includeHeaders", "true")
        frame = records.load().selectExpr("key", "value", "headers", "partition")
        writer = frame.writeStream.format("kafka").option("topic", copy)
        writer = writer.options(**client_options(spark.bootstrap, {})).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()

    # When it runs again after more came
    copy_what_is_there()
    logs.write(topic, "l=x")
    copy_what_is_there()

    # Then each record is there once
    copied = [(one.partition, one.key, one.value, one.headers) for one in confluent.consume(copy)]
    headers = (("h", b"1"),)
    assert sorted(copied) == [
        (0, b"l", b"x", ()),
        (1, b"k", b"v", headers),
        (1, b"k", b"w", headers),
    ]
