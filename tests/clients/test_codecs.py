"""Five codecs through each client that has them, read back by each client; real flights."""

import functools
import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.clients.aiokafka_client import Aiokafka
from tests.clients.confluent import Confluent
from tests.clients.flights import Flight
from tests.clients.java_tools import JavaTools
from tests.clients.kcat import Kcat
from tests.clients.records import (
    READERS,
    Reader,
    SentRecord,
    check_dense_offsets,
    check_same_flights,
)
from tests.clients.spark_session import Spark
from tests.clients.stored_batches import CODECS, stored_batches
from tests.clients.topics import new_topic

PRODUCERS = ("kcat", "confluent", "aiokafka", "java_tools", "spark")
READERS_ON_THE_JVM = ("console_consumer", "spark")
SUBSET = 5_000  # more than one batch and one answer of every client
ALWAYS_SMALLER = 10  # records of flights in one batch, from which on any codec makes it smaller

Produced = Callable[[str, str], str]


@pytest.fixture(scope="module")
def subset(flights: list[Flight]) -> list[Flight]:
    return flights[:SUBSET]


@pytest.fixture(scope="module")
def produced(
    request: pytest.FixtureRequest, confluent: Confluent, subset: list[Flight]
) -> Produced:
    """Return the topic that a producer filled with a codec; filled when first asked for."""
    lines = b"".join(flight.key + b"\t" + flight.value + b"\n" for flight in subset)
    records = [SentRecord(key=flight.key, value=flight.value) for flight in subset]

    @functools.cache
    def fill(producer: str, codec: str) -> str:
        topic = new_topic(confluent, f"codec-{producer}-{codec}")
        client: Kcat | Confluent | Aiokafka | JavaTools | Spark = request.getfixturevalue(producer)
        if isinstance(client, Kcat | JavaTools):
            client.produce(topic, lines, codec=codec)
        else:
            client.produce(topic, records, codec=codec)
        return topic

    return fill


def cells() -> Iterator[tuple[str, str, str]]:
    """Yield reader, producer and codec: all for readers in this process and for kcat.

    A reader on the JVM takes seconds, so it gets two codecs of every producer, shifted from one to
    the next: it still meets each codec twice and each producer twice.
    """
    for reader, producer, codec in itertools.product(READERS, PRODUCERS, CODECS):
        shift = (CODECS.index(codec) - PRODUCERS.index(producer)) % len(CODECS)
        if reader not in READERS_ON_THE_JVM or shift < 2:
            yield reader, producer, codec


@pytest.mark.parametrize(("reader", "producer", "codec"), list(cells()), indirect=["reader"])
def test_every_client_reads_what_any_client_compressed(
    reader: Reader, produced: Produced, producer: str, codec: str, subset: list[Flight]
) -> None:
    # Given flights that one stock client sent with one codec
    topic = produced(producer, codec)

    # When another reads them
    records = reader(topic)

    # Then they are the same, in the order sent
    check_same_flights(records, subset)
    check_dense_offsets(records)


@pytest.mark.parametrize(("producer", "codec"), list(itertools.product(PRODUCERS, CODECS)))
def test_batches_are_stored_with_the_codec_that_the_client_was_told(
    produced: Produced, confluent: Confluent, producer: str, codec: str
) -> None:
    # Given flights that one stock client sent with one codec
    topic = produced(producer, codec)

    # When the batches are fetched without decoding them
    batches = stored_batches(confluent.leader(topic, 0), topic, 0)

    # Then none was sent or stored in another form, and they hold all records
    large = [batch for batch in batches if batch.record_count >= ALWAYS_SMALLER]
    assert {batch.codec for batch in large} == {codec}
    assert sum(batch.record_count for batch in batches) == SUBSET
    assert batches[-1].last_offset == SUBSET - 1
