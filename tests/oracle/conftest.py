"""One Apache Kafka for all oracle tests of a run."""

from collections.abc import Iterator

import pytest

from tests.oracle.apache_kafka import ApacheKafka, running_kafka


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with running_kafka(tmp_path_factory.mktemp("apache-kafka")) as running:
        yield running
