"""A shell that gives few file descriptors, as most do, is no limit on connections."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

import pytest
from structlog.testing import capture_logs

from broker.network import file_limit
from tests.support.broker import BrokerProcess, start_broker
from tests.support.wire import API_VERSIONS, WireClient, build, request_entities

FEW = 256
MORE = 400


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """One that was started where the soft limit is low."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (FEW, hard))
    try:
        started = start_broker(tmp_path, own_imports=True)
    finally:
        setrlimit(RLIMIT_NOFILE, (soft, hard))
    yield started
    assert started.stop() == 0


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


@pytest.mark.parametrize(("limit", "is_told"), [(10_999, True), (11_000, False), (-1, False)])
def test_that_clients_may_take_all_descriptors_is_told(
    monkeypatch: pytest.MonkeyPatch, limit: int, *, is_told: bool
) -> None:
    # Given a limit, which is none if it is negative
    monkeypatch.setattr(file_limit, "getrlimit", lambda _: (limit, limit))

    # When a broker starts that may have 10,000 connections
    with capture_logs() as logs:
        file_limit.warn_of_few_files(10_000)

    # Then it tells if it needs more
    assert [line["needed"] for line in logs] == [11_000] * is_told
