"""Offsets by timestamp, on real departure times: librdkafka, the Java tool and Spark ask."""

from bisect import bisect_left
from itertools import accumulate

import pytest

from tests.clients.confluent import Confluent
from tests.clients.flights import Flight
from tests.clients.java_tools import JavaTools
from tests.clients.records import Reader, SentRecord
from tests.clients.spark_session import Spark, records_of
from tests.clients.topics import new_topic

SUBSET = 20_000
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def times_ms(flights: list[Flight]) -> list[int]:
    """Hours of scheduled departure in the order of the data set: mostly, not always, rising."""
    return [flight.scheduled_ms for flight in flights[:SUBSET]]


@pytest.fixture(scope="module")
def timed_topic(confluent: Confluent, flights: list[Flight], times_ms: list[int]) -> str:
    topic = new_topic(confluent, "by-time")
    records = [
        SentRecord(key=flight.key, value=flight.value, timestamp_ms=time_ms)
        for flight, time_ms in zip(flights, times_ms, strict=False)
    ]
    confluent.produce(topic, records, codec="zstd")
    return topic


def first_offset_at_or_after(times_ms: list[int], wanted_ms: int) -> int:
    """Kafka's rule: the first offset whose own timestamp is not before the wanted one."""
    latest_so_far = list(accumulate(times_ms, max))
    return bisect_left(latest_so_far, wanted_ms)


def wanted_times(times_ms: list[int]) -> list[int]:
    middle = times_ms[SUBSET // 2]
    return [0, times_ms[0], middle - 1, middle, middle + 1, middle + 7 * HOUR_MS, max(times_ms)]


def test_departure_times_come_back_with_their_flights(
    reader: Reader, timed_topic: str, times_ms: list[int]
) -> None:
    assert [record.timestamp_ms for record in reader(timed_topic)] == times_ms


def test_librdkafka_finds_the_first_offset_at_or_after_a_time(
    confluent: Confluent, timed_topic: str, times_ms: list[int]
) -> None:
    wanted = wanted_times(times_ms)

    found = {time_ms: confluent.offset_for_time(timed_topic, 0, time_ms) for time_ms in wanted}

    assert found == {time_ms: first_offset_at_or_after(times_ms, time_ms) for time_ms in wanted}


def test_no_offset_is_after_the_last_departure(
    confluent: Confluent, timed_topic: str, times_ms: list[int]
) -> None:
    # librdkafka answers "nothing that late" with the end of the partition
    assert confluent.offset_for_time(timed_topic, 0, max(times_ms) + 1) == -1


def test_the_java_tool_finds_times_and_the_largest_timestamp(
    java_tools: JavaTools, timed_topic: str, times_ms: list[int]
) -> None:
    middle = times_ms[SUBSET // 2]
    expected = {
        "earliest": 0,
        "latest": SUBSET,
        "max-timestamp": times_ms.index(max(times_ms)),  # KIP-734
        str(middle): first_offset_at_or_after(times_ms, middle),
    }

    found = {
        time: java_tools.run("kafka-get-offsets", "--topic", timed_topic, "--time", time).stdout
        for time in expected
    }

    assert found == {time: f"{timed_topic}:0:{offset}\n" for time, offset in expected.items()}


def test_spark_starts_reading_at_a_time(
    spark: Spark, timed_topic: str, times_ms: list[int]
) -> None:
    wanted = times_ms[SUBSET // 2]

    records = records_of(spark.read(timed_topic, startingTimestamp=str(wanted)))

    first = first_offset_at_or_after(times_ms, wanted)
    assert [record.offset for record in records] == list(range(first, SUBSET))
