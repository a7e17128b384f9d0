"""One broker for all tests of the administrative APIs; each test has topics of its own."""

import asyncio
import uuid
from collections.abc import Iterator

import pytest

from tests.broker.admin.pair import Pair, start_pair
from tests.broker.admin.wire import Wire
from tests.support.broker import BrokerProcess, running_broker
from tests.support.postgres import create_empty_database


@pytest.fixture(scope="session")
def admin_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = ("--set", "num.partitions=3", "--set", "default.replication.factor=2")
    with running_broker(tmp_path_factory.mktemp("admin"), *settings) as broker:
        yield broker


@pytest.fixture
def wire(admin_broker: BrokerProcess) -> Wire:
    host, _, port = admin_broker.bootstrap.rpartition(":")
    return Wire(host, int(port))


@pytest.fixture
def name() -> str:
    """A topic name that no other test has."""
    return f"admin-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    dsn = asyncio.run(create_empty_database())
    made = asyncio.run(start_pair(tmp_path_factory.mktemp("pair"), dsn))
    yield made
    assert [broker.stop() for broker in made.brokers] == [0, 0]
