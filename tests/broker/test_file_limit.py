"""A shell that gives few file descriptors, as most do, is no limit on connections."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

import pytest

from tests.support.broker import BrokerProcess, running_broker
from tests.support.wire import API_VERSIONS, WireClient, build, request_entities

FEW = 256
MORE = 400


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """One that was started where the soft limit is low."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (FEW, hard))
    try:
        with running_broker(tmp_path) as started:
            setrlimit(RLIMIT_NOFILE, (soft, hard))
            yield started
    finally:
        setrlimit(RLIMIT_NOFILE, (soft, hard))


def test_more_clients_are_served_than_the_soft_limit_lets_in(broker: BrokerProcess) -> None:
    request = build(request_entities(API_VERSIONS, 0), "ApiVersionsRequest")

    async def ask() -> list[int]:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(await WireClient.connect(broker.bootstrap))
                for _ in range(MORE)
            ]
            return [int((await client.ask(request)).error_code) for client in clients]

    assert asyncio.run(ask()) == [0] * MORE
