"""One broker for all tests of the administrative APIs; each test has topics of its own."""

import uuid
from collections.abc import Iterator

import pytest

from tests.broker.admin.wire import Wire
from tests.support.broker import BrokerProcess, running_broker


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
