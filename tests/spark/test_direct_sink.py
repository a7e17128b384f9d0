"""Batch writes of format("streamhouse"): stock consumers find all rows, once, or none of them."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.testing import assertDataFrameEqual

from spark.log_location import LogLocation
from spark.sinks.direct import BatchNotCommitted, DirectWriter
from spark.sinks.direct_task import SinkMessage
from storage.errors import WrongStore
from storage.objects.store_marker import MARKER, new_mark, read_marker
from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.clients.spark_session import Spark
from tests.clients.topics import new_topic

WAIT_S = 30
ONLY_VALUES = StructType([StructField("value", BinaryType())])

Write = Callable[..., None]


@pytest.fixture
def write(location_options: dict[str, str]) -> Write:
    """Append a DataFrame to a topic."""

    def append(frame: DataFrame, **options: str) -> None:
        writer = frame.write.format("streamhouse").mode("append")
        writer.options(**location_options, **options).save()

    return append


def rows_of(*values: bytes) -> Iterator[pa.RecordBatch]:
    """Return rows as a task gets them from Spark."""
    return iter([pa.RecordBatch.from_pydict({"value": list(values)})])


def attempt(writer: DirectWriter, *values: bytes) -> SinkMessage:
    """Do what an executor does with one attempt of a task."""
    return writer.write(rows_of(*values))


def next_value(consumer: Consumer) -> bytes | None:
    message = consumer.poll(WAIT_S)
    assert message is not None, "nothing comes"
    assert message.error() is None
    value: bytes | None = message.value()
    return value


def object_states(location: LogLocation, *messages: SinkMessage) -> list[str]:
    async def look() -> list[str]:
        connection = await asyncpg.connect(location.postgres)
        try:
            query = "SELECT state FROM streamhouse.objects WHERE path = $1"
            paths = [each.path for message in messages for each in message.objects]
            return [await connection.fetchval(query, path) for path in paths]
        finally:
            await connection.close()

    return asyncio.run(look())


def test_rows_are_what_the_connector_would_have_written(
    session: SparkSession, spark: Spark, confluent: Confluent, write: Write
) -> None:
    # Given rows with keys, headers, tombstones, and some that name their partition and time
    ours, theirs = (new_topic(confluent, "columns", partition_count=5) for _ in range(2))
    frame = session.range(1200, numPartitions=1).selectExpr(
        "case when id % 7 > 0 then concat('key-', id % 90) end AS key",
        "case when id % 11 > 0 then encode(concat('value ', id), 'UTF-8') end AS value",
        "case when id % 3 = 0 then array(named_struct('key', 'a', 'value', X'01'),"
        " named_struct('key', '', 'value', cast(null AS binary))) end AS headers",
        "case when id % 7 = 0 then cast(id % 5 AS int) end AS partition",
        "timestamp_millis(1700000000000 + id) AS timestamp",
        "id AS nobody_asked_for",
    )

    # When they are written without a broker, and by Spark's own connector
    write(frame, topic=ours)
    connector = frame.write.format("kafka").option("topic", theirs)
    connector.option("kafka.bootstrap.servers", spark.bootstrap).save()

    # Then consumers find the same in the same places, and the times of the rows besides
    columns = ("partition", "offset", "key", "value", "headers")
    assertDataFrameEqual(spark.read(ours).select(*columns), spark.read(theirs).select(*columns))
    written = {record.value: record.timestamp_ms for record in confluent.consume(ours)}
    assert written[b"value 17"] == 1700000000017
    assert confluent.record_counts(ours) == confluent.record_counts(theirs)


def test_rows_of_many_tasks_and_topics_are_committed_together(
    session: SparkSession, confluent: Confluent, write: Write
) -> None:
    # Given rows for two topics in four tasks, and objects so small that each task has several
    topics = [new_topic(confluent, "many", partition_count=2) for _ in range(2)]
    frame = session.range(4000, numPartitions=4).selectExpr(
        f"if(id % 2 = 0, '{topics[0]}', '{topics[1]}') AS topic",
        "cast(id AS string) AS value",
        "cast(0 AS int) AS partition",
    )

    # When they are written
    write(frame, objectBytes="8192", **{"kafka.compression.type": "zstd"})

    # Then each topic has its rows in the order of the tasks
    for number, topic in enumerate(topics):
        values = [int(record.value or b"") for record in confluent.consume(topic)]
        assert values == list(range(number, 4000, 2))


def test_what_cannot_be_written_is_said_and_not_written(
    session: SparkSession, confluent: Confluent, write: Write
) -> None:
    # Given a topic that takes small records
    topic = f"small-{uuid4().hex[:8]}"
    confluent.create_topic(topic, partition_count=1, configs={"max.message.bytes": "1000"})
    fine, large = (session.range(1).selectExpr(f"repeat('x', {n}) value") for n in (10, 2000))

    # When rows are written that it does not take, or in a way that does not exist
    missing = f"missing-{uuid4()}"
    with pytest.raises(PySparkException, match=f"topic {missing} does not exist: streamctl topic"):
        write(fine, topic=missing)
    with pytest.raises(PySparkException, match=r"it takes max\.message\.bytes=1000"):
        write(fine.union(large).coalesce(1), topic=topic)
    with pytest.raises(PySparkException, match=r"cannot be overwritten: write with mode"):
        fine.write.format("streamhouse").mode("overwrite").option("topic", topic).save()

    # Then nothing is; no rows at all are no error
    write(fine.limit(0), topic=topic)
    assert confluent.record_counts(topic) == {0: 0}


def test_a_write_with_a_key_is_done_once(
    session: SparkSession, confluent: Confluent, write: Write
) -> None:
    # Given a write with a key
    topic = new_topic(confluent, "keyed", partition_count=1)
    frame = session.range(10).selectExpr("cast(id AS string) value")
    keyed = {"topic": topic, "idempotencyKey": f"load-{topic}"}
    write(frame, **keyed)

    # When it is asked for again, with other rows even, and then for the next version
    write(frame.limit(3), **keyed)
    assert confluent.record_counts(topic) == {0: 10}
    write(frame.limit(3), **keyed, idempotencyVersion="1")

    # Then each version is there once; what comes too late is an error
    assert confluent.record_counts(topic) == {0: 13}
    with pytest.raises(PySparkException, match="comes after batch 1"):
        write(frame, **keyed)
    assert confluent.record_counts(topic) == {0: 13}


def test_of_two_attempts_of_a_task_one_counts(
    confluent: Confluent, location: LogLocation, location_options: dict[str, str]
) -> None:
    # Given a task of which two attempts have stored their rows, as speculation does
    topic = new_topic(confluent, "attempts", partition_count=1)
    writer = DirectWriter({**location_options, "topic": topic}, ONLY_VALUES)
    lost, won = attempt(writer, b"a", b"b"), attempt(writer, b"a", b"b")
    assert confluent.record_counts(topic) == {0: 0}

    # When Spark hands one of the messages to the driver, and after a failure asks it to abort
    writer.commit([won, None])
    writer.abort([won, lost, None])

    # Then its rows are there, and the others are given up
    assert [record.value for record in confluent.consume(topic)] == [b"a", b"b"]
    assert object_states(location, won, lost) == ["live", "doomed"]


def test_large_objects_are_stored_whole(
    confluent: Confluent, location_options: dict[str, str]
) -> None:
    # Given a task with megabytes of rows, and no compression
    topic = new_topic(confluent, "large", partition_count=1)
    writer = DirectWriter({**location_options, "topic": topic}, ONLY_VALUES)
    values = [b"%06d" % number * 500 for number in range(3000)]

    # When they are written, then each is there as it was
    writer.commit([attempt(writer, *values)])
    assert [record.value for record in confluent.consume(topic)] == values


def test_a_topic_that_is_deleted_before_the_commit_keeps_all_rows_out(
    confluent: Confluent, location_options: dict[str, str]
) -> None:
    # Given a stored task of a topic that is gone since
    topic = new_topic(confluent, "gone", partition_count=1)
    writer = DirectWriter({**location_options, "topic": topic}, ONLY_VALUES)
    message = attempt(writer, b"a")
    admin = AdminClient({"bootstrap.servers": confluent.bootstrap})
    admin.delete_topics([topic])[topic].result()

    # When it is committed, then the error says which
    with pytest.raises(BatchNotCommitted, match=f"topics {topic}; nothing is committed"):
        writer.commit([message])


def test_the_store_of_another_cluster_is_refused(
    confluent: Confluent, location: LogLocation, tmp_path: Path
) -> None:
    # Given the metadata of one cluster, and an object store that is not its own
    topic = new_topic(confluent, "elsewhere", partition_count=1)
    options: dict[str, Any] = {
        "postgres": location.postgres,
        "store": str(tmp_path / "elsewhere"),
        "topic": topic,
    }

    # When rows are written, then they are refused: brokers would not find them
    with pytest.raises(WrongStore, match="give the postgres and store of one cluster"):
        attempt(DirectWriter(options, ONLY_VALUES), b"a")
    assert confluent.record_counts(topic) == {0: 0}


def test_a_store_that_the_cluster_did_not_take_is_refused(
    confluent: Confluent, location: LogLocation, tmp_path: Path
) -> None:
    # Given a store that was marked for the cluster, which took another one
    async def mark_another() -> None:
        async with location.objects() as objects:
            mark = await read_marker(objects)
        assert mark is not None
        (tmp_path / MARKER).write_bytes(new_mark(mark.cluster_id).content())

    asyncio.run(mark_another())
    topic = new_topic(confluent, "elsewhere", partition_count=1)
    options: dict[str, Any] = {
        "postgres": location.postgres,
        "store": str(tmp_path),
        "topic": topic,
    }

    # When rows are written, then they are refused: brokers would not find them
    with pytest.raises(WrongStore, match="which took another store"):
        attempt(DirectWriter(options, ONLY_VALUES), b"a")


def test_brokers_serve_what_was_committed_to_consumers_that_wait(
    confluent: Confluent, location_options: dict[str, str]
) -> None:
    # Given a consumer at the end of a topic, that a producer has written to
    topic = new_topic(confluent, "waiting", partition_count=1)
    confluent.produce(topic, [SentRecord(key=None, value=b"of a producer")])
    writer = DirectWriter({**location_options, "topic": topic}, ONLY_VALUES)
    consumer = Consumer({"bootstrap.servers": confluent.bootstrap, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert next_value(consumer) == b"of a producer"

    # When a job commits, then it hears of it, and then of the next producer
    writer.commit([attempt(writer, b"of a job")])
    assert next_value(consumer) == b"of a job"
    confluent.produce(topic, [SentRecord(key=None, value=b"of another producer")])
    assert next_value(consumer) == b"of another producer"
    consumer.close()
