"""All flights add up to the same in Spark as in plain Python, whichever way their rows came."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from tests.clients.confluent import Confluent
from tests.clients.flights import FLIGHT_COUNT, Flight
from tests.clients.kcat import kcat
from tests.clients.topics import new_topic
from tests.spark import flights_plain, flights_tables
from tests.spark.flights_ways import Way

PARTITION_COUNT = 4


@pytest.fixture(scope="module")
def flights_topic(confluent: Confluent, bootstrap: str, flights_path: Path) -> str:
    """All flights, sent by kcat as JSON, keyed by carrier, compressed with lz4."""
    topic = new_topic(confluent, "flights", partition_count=PARTITION_COUNT)
    kcat(bootstrap).produce(topic, flights_path, codec="lz4")
    return topic


@pytest.fixture(scope="module")
def plain_delays(flights: list[Flight]) -> list[flights_plain.Row]:
    return flights_plain.delays(flights)


@pytest.fixture(scope="module")
def plain_contents(confluent: Confluent, flights_topic: str) -> list[flights_plain.Row]:
    """What librdkafka reads."""
    return flights_plain.contents(confluent.consume(flights_topic))


@pytest.fixture(params=["kafka batch", "kafka stream", "streamhouse batch", "streamhouse stream"])
def way(
    request: pytest.FixtureRequest,
    session: SparkSession,
    bootstrap: str,
    location_options: dict[str, str],
) -> Way:
    name, _, kind = request.param.partition(" ")
    brokers = {"kafka.bootstrap.servers": bootstrap}
    return Way(
        session=session,
        format=name,
        options=brokers if name == "kafka" else location_options,
        streaming=kind == "stream",
    )


def test_delays_of_carriers_and_months_are_those_of_plain_python(
    way: Way, flights_topic: str, plain_delays: list[flights_plain.Row]
) -> None:
    # Given what plain Python makes of the flights as they were before they were sent
    expected = way.session.createDataFrame(plain_delays, flights_tables.DELAYS)
    assert sum(row[2] for row in plain_delays) == FLIGHT_COUNT

    # When Spark reads all of the topic
    delays = way.result(flights_topic, flights_tables.delays)

    # Then it comes to the same numbers
    assertDataFrameEqual(delays, expected)


def test_every_record_comes_once_and_whole(
    way: Way, flights_topic: str, plain_contents: list[flights_plain.Row]
) -> None:
    # Given checksums over offset, key, value and time of what a stock client reads
    expected = way.session.createDataFrame(plain_contents, flights_tables.CONTENTS)

    # When Spark reads all of the topic
    contents = way.result(flights_topic, flights_tables.contents)

    # Then it has read the same records
    assertDataFrameEqual(contents, expected)
