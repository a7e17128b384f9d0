"""One broker, and the registry that it asks, for the tests of a module."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.broker.schemas.schema_wire import (
    INVALID,
    given_topic,
    ids,
    new_schema,
    settings,
    until_code,
)
from tests.support.broker import BrokerProcess, start_broker
from tests.support.fake_registry import FakeRegistry, fake_registry
from tests.support.wire import WireClient


@pytest.fixture(scope="module")
def one_registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


@pytest.fixture
def registry(one_registry: FakeRegistry) -> FakeRegistry:
    """The registry, well again."""
    one_registry.status = 0
    one_registry.broken, one_registry.hanging = set(), set()
    one_registry.open.set()
    return one_registry


@pytest.fixture(scope="module")
def validating(
    one_registry: FakeRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    running = start_broker(
        tmp_path_factory.mktemp("schemas"),
        *settings(one_registry.url, "confluent.missing.id.cache.ttl.sec=1"),
        environment=os.environ
        | {
            "STREAMHOUSE_SCHEMA_REGISTRY__USER": "broker",
            "STREAMHOUSE_SCHEMA_REGISTRY__PASSWORD": "secret",
        },
    )
    yield running
    running.stop()


@pytest.fixture
async def wire(validating: BrokerProcess, registry: FakeRegistry) -> AsyncIterator[WireClient]:
    """A connection to a broker that has heard from its registry: no test inherits a failure."""
    async with await WireClient.connect(validating.bootstrap) as client:
        await given_topic(client, name := f"probe-{next(ids)}")
        await until_code(client, name, INVALID, new_schema(registry))
        yield client
