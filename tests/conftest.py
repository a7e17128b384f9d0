"""Fixtures of all tests: one broker process per run, as users start it, and a raw client for it."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import settings

from tests.support.broker import BrokerProcess, running_broker
from tests.support.wire import WireClient

settings.register_profile("ci", max_examples=50, deadline=None)
settings.register_profile("exhaustive", max_examples=5000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
async def wire(broker: BrokerProcess) -> AsyncIterator[WireClient]:
    async with await WireClient.connect(broker.bootstrap) as client:
        yield client


@pytest.fixture
def topic() -> str:
    """Return a name that no other test uses."""
    return f"topic-{next(_numbers)}"
