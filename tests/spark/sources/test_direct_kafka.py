"""format("streamhouse") gives what Spark's own connector gives, column by column."""

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark.log_location import LogLocation
from tests.clients.confluent import CALL_TIMEOUT_S, Confluent
from tests.clients.records import SentRecord
from tests.clients.spark_session import Spark
from tests.clients.topics import new_topic
from tests.spark.sources.kafka_logs import LONG_TRANSACTIONS

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000


def some_records(count: int, *, size: int = 100) -> list[SentRecord]:
    """Return records with and without keys, values and headers; names of headers come twice."""
    headers = (("trace", b"1"), ("trace", None), ("größe", b""), ("trace", b"2"))
    return [
        SentRecord(
            key=None if number % 5 == 0 else f"key-{number % 17}".encode(),
            value=None if number % 7 == 0 else (b"%d " % number) * (number % size // 3),
            headers=headers[: number % 5],
            timestamp_ms=FIRST_MS + number * 997 % 5_000,
        )
        for number in range(count)
    ]


def direct(session: SparkSession, options: Mapping[str, str], **more: str) -> DataFrame:
    reader = session.read.format("streamhouse").option("includeHeaders", "true")
    return reader.options(**options).options(**more).load()


def stock(spark: Spark, **options: str) -> DataFrame:
    reader = spark.session.read.format("kafka").option("includeHeaders", "true")
    return reader.option("kafka.bootstrap.servers", spark.bootstrap).options(**options).load()


def check_same(ours: DataFrame, theirs: DataFrame, count: int) -> None:
    assert ours.schema == theirs.schema
    assert theirs.count() == count
    assertDataFrameEqual(ours, theirs)


def test_all_columns_of_every_codec_are_those_of_the_connector(
    spark: Spark, confluent: Confluent, location_options: dict[str, str]
) -> None:
    # Given a topic with batches of every codec, large and of one record, and one stamped by brokers
    topic = new_topic(confluent, "direct-codecs", partition_count=2)
    stamped = f"{topic}-stamped"
    configs = {"message.timestamp.type": "LogAppendTime"}
    confluent.create_topic(stamped, partition_count=1, configs=configs)
    for codec in CODECS:
        confluent.produce(topic, some_records(300), codec=codec)
        confluent.produce(stamped, some_records(20), codec=codec)
        for record in some_records(3):
            confluent.produce(topic, [record], codec=codec)
    confluent.produce(topic, [SentRecord(key=b"huge", value=bytes(900_000))])

    # When both read them
    both = f"{topic},{stamped}"
    ours = direct(spark.session, location_options, subscribe=both)
    theirs = stock(spark, subscribe=both)

    # Then all columns are the same
    check_same(ours, theirs, 5 * (300 + 20 + 3) + 1)
    assert {row[0] for row in ours.select("timestampType").distinct().collect()} == {0, 1}


def test_what_was_aborted_or_is_open_is_read_as_consumers_do(
    spark: Spark, confluent: Confluent, location_options: dict[str, str]
) -> None:
    # Given transactions of two producers, woven into each other and with records of none between
    topic = new_topic(confluent, "direct-transactions")
    first, second = (_transactional(spark.bootstrap, f"{topic}-{name}") for name in "ab")
    for number, commits in enumerate((True, False, False, True)):
        first.begin_transaction()
        second.begin_transaction()
        _send(first, topic, f"first-{number}")
        _send(second, topic, f"second-{number}")
        confluent.produce(topic, some_records(3))
        (first.commit_transaction if commits else first.abort_transaction)(CALL_TIMEOUT_S)
        (second.abort_transaction if commits else second.commit_transaction)(CALL_TIMEOUT_S)
    first.begin_transaction()
    _send(first, topic, "open")
    confluent.produce(topic, some_records(4))

    # When both read what is committed, then nothing behind the open transaction is there
    committed = {"kafka.isolation.level": "read_committed"}
    ours = direct(spark.session, location_options, subscribe=topic)
    check_same(ours, stock(spark, subscribe=topic, **committed), 4 * 5 + 4 * 3)

    # And when both read all, then all is there but the markers
    options = {**location_options, "isolationLevel": "read_uncommitted"}
    ours = direct(spark.session, options, subscribe=topic)
    check_same(ours, stock(spark, subscribe=topic), 8 * 5 + 5 + 4 * 3 + 4)
    first.abort_transaction(CALL_TIMEOUT_S)


@pytest.mark.parametrize(
    "options",
    [
        {"startingTimestamp": str(FIRST_MS + 60), "endingTimestamp": str(FIRST_MS + 200)},
        {"startingOffsets": '{"TOPIC": {"0": 17, "1": -2, "2": 33}}'},
        {"endingOffsets": '{"TOPIC": {"0": 17, "1": -1, "2": 0}}'},
        {"endingOffsetsByTimestamp": f'{{"TOPIC": {{"0": {FIRST_MS + 99}, "1": 0, "2": 1}}}}'},
        {
            "startingOffsetsByTimestamp": f'{{"TOPIC": {{"0": {2 * FIRST_MS}, "1": 0, "2": 1}}}}',
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {"minPartitions": "7"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_ranges_are_those_of_the_connector(
    spark: Spark, timed: str, location_options: dict[str, str], options: dict[str, str]
) -> None:
    # Given options with the connector's names
    options = {name: value.replace("TOPIC", timed) for name, value in options.items()}

    # When both read with them, then they give the same
    ours = direct(spark.session, location_options, subscribe=timed, **options)
    theirs = stock(spark, subscribe=timed, **options)
    assertDataFrameEqual(_places(ours), _places(theirs))
    assert 0 < ours.count() <= 300
    assert ours.rdd.getNumPartitions() >= int(options.get("minPartitions", 1))


@pytest.fixture(scope="module")
def timed(confluent: Confluent) -> str:
    """Three partitions, each with 100 records of ascending times, in batches of 10."""
    topic = new_topic(confluent, "direct-timed", partition_count=3)
    producer = Producer({"bootstrap.servers": confluent.bootstrap, "batch.num.messages": 10})
    for number in range(100):
        for partition in range(3):
            producer.produce(
                topic, b"%d" % number, partition=partition, timestamp=FIRST_MS + 3 * number
            )
    assert producer.flush(CALL_TIMEOUT_S) == 0
    return topic


def test_topics_are_chosen_as_the_connector_chooses_them(
    spark: Spark, timed: str, location_options: dict[str, str]
) -> None:
    # When topics are chosen by a pattern, and partitions one by one, then both choose the same
    for options in ({"subscribePattern": f"{timed[:-1]}."}, {"assign": f'{{"{timed}": [2, 0]}}'}):
        ours = direct(spark.session, location_options, **options)
        assertDataFrameEqual(_places(ours), _places(stock(spark, **options)))
        assert ours.count() == (300 if "subscribePattern" in options else 200)


def test_headers_come_only_if_they_are_asked_for(
    session: SparkSession, timed: str, location: LogLocation
) -> None:
    # Given a reader that is told Postgres and the store
    options = {"postgres": location.postgres, "store": location.store}

    # Then it reads without headers if nobody asks for them
    frame = session.read.format("streamhouse").options(subscribe=timed, **options).load()
    assert frame.columns == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    ]
    assert frame.selectExpr("sum(length(value))").collect()[0][0] == 3 * (10 + 180)


def _places(frame: DataFrame) -> DataFrame:
    return frame.select("topic", "partition", "offset", "timestamp", "value")


def _transactional(bootstrap: str, name: str) -> Producer:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "transactional.id": name}
    producer = Producer({**settings, **LONG_TRANSACTIONS})
    producer.init_transactions(CALL_TIMEOUT_S)
    return producer


def _send(producer: Producer, topic: str, value: str) -> None:
    for number in range(5):
        producer.produce(topic, f"{value}-{number}".encode())
    assert producer.flush(CALL_TIMEOUT_S) == 0
