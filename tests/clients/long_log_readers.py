"""Stock clients that read partition 0 from a place to the end, and say where they are then.

What they are for is the end: it may lie behind records that are not there any more.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.aiokafka_client import DEBUG, record_of_aiokafka
from tests.clients.confluent import record_of_confluent
from tests.clients.kcat import Kcat, record_of_kcat
from tests.clients.log_reader import LogReader
from tests.clients.processes import run
from tests.clients.records import ConsumedRecord
from tests.clients.spark_session import Spark, records_of

COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"
PATIENCE_S: Final = 90.0
WAIT_MS: Final = 20  # librdkafka waits so long at the end until it says that it is there
END: Final = re.compile(r"Reached end of topic \S+ \[0\] at offset (\d+)")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader got.

    Attributes:
        records: in the order they came.
        position: where the reader was then; None if it does not say.
    """

    records: list[ConsumedRecord]
    position: int | None


NAMES: Final = ("confluent", "aiokafka", "kcat", "java", "spark")
LongLogReader = Callable[[str, str, int], Reading]
"""Its arguments are a topic, an isolation level and an offset."""


def read_by_librdkafka(bootstrap: str, topic: str, isolation_level: str, start: int) -> Reading:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "assigned-by-hand",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": WAIT_MS,
        }
    )
    consumer.assign([TopicPartition(topic, 0, start)])
    records: list[ConsumedRecord] = []
    deadline_s = time.monotonic() + PATIENCE_S
    try:
        while True:
            assert time.monotonic() < deadline_s, f"{len(records)} records, and no end"
            for message in consumer.consume(10_000, timeout=0.1):
                error = message.error()
                if error is None:
                    records.append(record_of_confluent(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return Reading(records, message.offset())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def read_by_aiokafka(bootstrap: str, topic: str, isolation_level: str, start: int) -> Reading:
    async def read() -> Reading:
        partition, records = AiokafkaPartition(topic, 0), list[ConsumedRecord]()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation_level,
            enable_auto_commit=False,
            auto_offset_reset="none",
        )
        async with asyncio.timeout(PATIENCE_S), consumer:
            consumer.assign([partition])
            end = (await consumer.end_offsets([partition]))[partition]
            consumer.seek(partition, start)
            while await consumer.position(partition) < end:
                fetched = await consumer.getmany(partition, timeout_ms=100)
                records += map(record_of_aiokafka, fetched.get(partition, []))
            return Reading(records, await consumer.position(partition))

    return asyncio.run(read(), debug=DEBUG)


def read_by_kcat(kcat: Kcat, topic: str, isolation_level: str, start: str) -> Reading:
    """`start` is an offset, or s@ and a timestamp."""
    command = [kcat.path, "-C", "-b", kcat.bootstrap, "-t", topic, "-p", "0", "-o", start, "-e"]
    settings = (f"isolation.level={isolation_level}", f"fetch.wait.max.ms={WAIT_MS}")
    command += ["-J", *(word for setting in settings for word in ("-X", setting))]
    output = run(command, timeout_s=PATIENCE_S)
    end = END.search(output.stderr)
    assert end, output.stderr
    lines = output.stdout.split("\n")
    return Reading([record_of_kcat(json.loads(line)) for line in lines if line], int(end[1]))


def read_by_java(java: LogReader, topic: str, isolation_level: str, start: str) -> Reading:
    """`start` is an offset, or @ and a timestamp."""
    return Reading(*java.read(topic, isolation_level, start))


def read_by_spark(spark: Spark, topic: str, isolation_level: str, start: int) -> Reading:
    options = {
        "startingOffsets": json.dumps({topic: {"0": start}}),
        "kafka.isolation.level": isolation_level,
    }
    return Reading(records_of(spark.read(topic, **options)), None)
