"""One broker for all tests of groups; each test has groups and topics of its own."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.groups.group_world import World, world
from tests.support.broker import BrokerProcess, running_broker, start_broker
from tests.support.group_members import Member
from tests.support.group_wire import named
from tests.support.held_groups import HeldGroups
from tests.support.postgres import create_empty_database
from tests.support.wire import WireClient

SETTINGS = (
    *("--set", "group.initial.rebalance.delay.ms=0"),
    *("--set", "group.min.session.timeout.ms=200"),
    *("--set", "group.max.size=3"),
    *("--set", "group.consumer.max.size=3"),
    *("--set", "offset.metadata.max.bytes=10"),
)

_numbers = itertools.count()

FIND_COORDINATOR = 10

MakeMember = Callable[..., Awaitable[Member]]


@pytest.fixture(scope="session")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("groups"), *SETTINGS) as broker:
        yield broker


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[BrokerProcess]]:
    """Two brokers on one Postgres and one store."""
    with ThreadPoolExecutor() as pool:
        dsn = pool.submit(asyncio.run, create_empty_database()).result()
        store = f"file://{tmp_path / 'objects'}"
        starting = [
            pool.submit(
                start_broker, tmp_path / name, "--postgres", dsn, "--store", store, *SETTINGS
            )
            for name in ("one", "two")
        ]
        brokers = [one.result() for one in starting]
    yield brokers
    for broker in brokers:
        broker.stop()


async def coordinator(client: WireClient, group: str) -> int:
    """Return the port of a group's coordinator, as this client's broker sees it."""
    request = named(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=(group,))
    (answer,) = (await client.ask(request)).coordinators
    assert answer.error_code is ErrorCode.none
    return int(answer.port)


@pytest.fixture
async def client(group_broker: BrokerProcess) -> AsyncIterator[WireClient]:
    async with await WireClient.connect(group_broker.bootstrap) as client:
        yield client


@pytest.fixture
def group() -> str:
    """Return a group id that no other test uses."""
    return f"group-{next(_numbers)}"


@pytest.fixture
async def member(group_broker: BrokerProcess, group: str) -> AsyncIterator[MakeMember]:
    """Make members of the test's group, each with a connection of its own."""
    async with AsyncExitStack() as stack:

        async def make(**joining: object) -> Member:
            connecting = await WireClient.connect(group_broker.bootstrap)
            return Member(await stack.enter_async_context(connecting), group, **joining)

        yield make


@pytest.fixture
async def store() -> HeldGroups:
    return HeldGroups()


@pytest.fixture
async def here(store: HeldGroups) -> AsyncIterator[World]:
    async with world(store) as made:
        yield made
