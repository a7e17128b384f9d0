"""A year of real flights goes in through kcat and comes out of every stock client unchanged."""

from pathlib import Path

import pytest

from tests.clients.confluent import Confluent
from tests.clients.flights import FLIGHT_COUNT, Flight
from tests.clients.java_tools import JavaTools
from tests.clients.kcat import Kcat
from tests.clients.records import Reader, by_partition, check_dense_offsets, check_same_flights
from tests.clients.topics import new_topic

PARTITION_COUNT = 6


@pytest.fixture(scope="module")
def flights_topic(confluent: Confluent, kcat: Kcat, flights_path: Path) -> str:
    """All flights, sent by kcat as JSON, keyed by carrier, compressed with lz4."""
    topic = new_topic(confluent, "flights", partition_count=PARTITION_COUNT)
    kcat.produce(topic, flights_path, codec="lz4")
    return topic


def test_the_data_set_is_whole_and_no_two_flights_are_equal(flights: list[Flight]) -> None:
    # Equal values would hide a change of order
    assert len(flights) == len({flight.value for flight in flights}) == FLIGHT_COUNT


def test_every_client_reads_all_flights_in_the_order_of_their_keys(
    reader: Reader, flights_topic: str, flights: list[Flight]
) -> None:
    # Given all flights in a topic of six partitions

    # When a stock client reads the topic from beginning to end
    records = reader(flights_topic)

    # Then nothing is missing, repeated or out of order
    check_same_flights(records, flights)
    check_dense_offsets(records)
    assert set(by_partition(records)) == set(range(PARTITION_COUNT))


def test_offsets_reported_are_the_offsets_read(
    java_tools: JavaTools, confluent: Confluent, flights_topic: str
) -> None:
    # When the Java tool and librdkafka are asked where the partitions end
    output = java_tools.run("kafka-get-offsets", "--topic", flights_topic)
    lines = (line.rsplit(":", 2) for line in output.stdout.splitlines())
    ends = {int(partition): int(end) for _topic, partition, end in lines}

    # Then both say the same, and it is all flights
    assert ends == confluent.record_counts(flights_topic)
    assert sum(ends.values()) == FLIGHT_COUNT
