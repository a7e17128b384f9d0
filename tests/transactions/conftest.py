"""One broker for the tests of transactions, or the one that STREAMHOUSE_TEST_BOOTSTRAP names.

Apache Kafka 4.3.1 passes the same tests, started with
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000 and
group.min.session.timeout.ms=1000; that is what makes it the judge.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.clients.confluent import Confluent
from tests.clients.topics import new_topic
from tests.support.broker import running_broker
from tests.transactions.aiokafka_client import AiokafkaLibrary
from tests.transactions.client import Library
from tests.transactions.confluent_client import ConfluentLibrary
from tests.transactions.java_client import JavaLibrary

SETTINGS: Final = ("group.initial.rebalance.delay.ms=100", "group.min.session.timeout.ms=1000")
READERS: Final = {"confluent": "java", "java": "aiokafka", "aiokafka": "confluent"}
NewTopic = Callable[[int], str]


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the broker under test."""
    if given := os.environ.get("STREAMHOUSE_TEST_BOOTSTRAP"):
        yield given
        return
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    with running_broker(tmp_path_factory.mktemp("transactions"), *settings) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def libraries(
    bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Library]]:
    """Every library, by its name."""
    made: list[Library] = [
        ConfluentLibrary(bootstrap),
        AiokafkaLibrary(bootstrap),
        JavaLibrary(bootstrap, tmp_path_factory.mktemp("java")),
    ]
    yield {one.name: one for one in made}
    for one in made:
        one.end()


@pytest.fixture(params=READERS)
def library(request: pytest.FixtureRequest, libraries: dict[str, Library]) -> Library:
    """Each library in turn, which writes."""
    return libraries[request.param]


@pytest.fixture
def reader(library: Library, libraries: dict[str, Library]) -> Library:
    """Another library, which reads what `library` has written."""
    return libraries[READERS[library.name]]


@pytest.fixture
def topic_of(bootstrap: str) -> NewTopic:
    """Return what makes a topic of so many partitions, and returns its name."""
    confluent = Confluent(bootstrap=bootstrap)
    return lambda count: new_topic(confluent, "transactions", partition_count=count)
