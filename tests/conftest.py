"""Fixtures of all tests: a broker process, as users start it, and a raw client for it.

Several processes may run the tests (pytest-xdist); each of them has its own of every fixture.
"""

import itertools
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.support.broker import BrokerProcess, running_broker
from tests.support.schedule import UnitScheduling, place
from tests.support.wire import WireClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("ci", max_examples=50, deadline=None)
settings.register_profile("exhaustive", max_examples=5000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

Tell = Callable[[str], None]
TOLD = "told"

_numbers = itertools.count()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling:
    return UnitScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write what tests have told, whichever process they ran in."""
    ended = ("passed", "failed")
    reports = [report for kind in ended for report in terminalreporter.getreports(kind)]
    lines = [
        f"{report.nodeid}: {value}"
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == TOLD
    ]
    if lines:
        terminalreporter.section("told by tests")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Add a line to the run's summary: numbers that a run is read for."""
    return lambda line: request.node.user_properties.append((TOLD, line))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Spark with all packages, on two threads here; a process can have one session only."""
    from tests.clients.spark_session import local_session  # noqa: PLC0415 - 1 s for most tests

    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
async def wire(broker: BrokerProcess) -> AsyncIterator[WireClient]:
    async with await WireClient.connect(broker.bootstrap) as client:
        yield client


@pytest.fixture
def topic() -> str:
    """Return a name that no other test uses."""
    return f"topic-{next(_numbers)}"


@pytest.fixture(scope="session")
def seed() -> int:
    return int(os.environ.get("CRASH_SEED") or random.SystemRandom().randrange(2**32))


@pytest.fixture
def dice(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Return what a test's random choices are made with; the same for the same seed."""
    return random.Random(f"{seed} {request.node.name}")
