"""One broker whose groups are quick, or the foreign one that STREAMHOUSE_TEST_BOOTSTRAP names.

Apache Kafka 4.3.1 started with SETTINGS passes the same tests; that is what makes it the judge. (It
needs group.consumer.assignment.interval.ms=0, too: its assignments wait up to a second otherwise.)
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.clients.confluent import Confluent
from tests.clients.topics import new_topic
from tests.groups.members import Members, running_members
from tests.support.broker import running_broker

# of members of KIP-848 groups, where a group has no config of its own
CONSUMER_SESSION_MS: Final = 45_000
CONSUMER_HEARTBEAT_MS: Final = 2_000
"""librdkafka waits so long for the answer to a heartbeat; then it disconnects, and what it was just
committing is read again."""

SETTINGS: Final = (
    "group.initial.rebalance.delay.ms=100",
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    f"group.consumer.session.timeout.ms={CONSUMER_SESSION_MS}",
    "group.consumer.min.heartbeat.interval.ms=100",
    f"group.consumer.heartbeat.interval.ms={CONSUMER_HEARTBEAT_MS}",
)
NewTopic = Callable[[int], str]


def set_arguments() -> list[str]:
    """Return SETTINGS as the broker's arguments."""
    return [word for setting in SETTINGS for word in ("--set", setting)]


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the broker under test."""
    if given := os.environ.get("STREAMHOUSE_TEST_BOOTSTRAP"):
        yield given
        return
    with running_broker(tmp_path_factory.mktemp("groups"), *set_arguments()) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def confluent(bootstrap: str) -> Confluent:
    return Confluent(bootstrap=bootstrap)


@pytest.fixture
def members(bootstrap: str, tmp_path: Path) -> Iterator[Members]:
    with running_members(bootstrap, tmp_path) as running:
        yield running


@pytest.fixture
def topic_of(confluent: Confluent) -> NewTopic:
    """Return what makes a topic of so many partitions, and returns its name."""
    return lambda partition_count: new_topic(confluent, "groups", partition_count=partition_count)
