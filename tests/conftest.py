"""Fixtures of all tests: a broker process, and a raw client for it.

Several processes may run the tests (pytest-xdist); each of them has its own of every fixture.
"""

import itertools
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import structlog
from hypothesis import settings

from tests.support.broker import BrokerProcess, running_broker
from tests.support.garbage import FailedTestsGarbage
from tests.support.host import Attempts
from tests.support.postgres import stop_postgres_server
from tests.support.postponing import Postponing
from tests.support.schedule import UnitScheduling, place
from tests.support.selection import is_long
from tests.support.wire import WireClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.oracle.tool_runner import ToolRunner

settings.register_profile("ci", max_examples=50, deadline=None)
settings.register_profile("exhaustive", max_examples=5000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

Tell = Callable[[str], None]
TOLD = "told"
ROUNDS = int(os.environ.get("CRASH_ROUNDS") or 1)
"""How many times as much as CI does the tests of crashes are to do."""

LONGER: Final = (
    *("CRASH_ROUNDS", "EXACTLY_ONCE_SECONDS", "HISTORY_SECONDS", "CLUSTER_SECONDS"),
    *("STREAMHOUSE_TEST_ALL_STEPS", "FUZZ_EXAMPLES", "HYPOTHESIS_PROFILE"),
)
"""Variables that make single tests as long as whoever sets them wants."""

_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    what = "take down here which tests failed while the host took the processors; they do not count"
    parser.addoption("--postpone", metavar="FILE", type=Path, help=what)


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # `make test &`: processes inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if any(os.environ.get(name) for name in LONGER):
        config.option.timeout = 0
    config.pluginmanager.register(FailedTestsGarbage())
    file: Path | None = config.getoption("--postpone")
    if file is not None:
        writes = not hasattr(config, "workerinput")
        config.pluginmanager.register(Postponing(Attempts(), file if writes else None))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling:
    return UnitScheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.nodeid))
    for item in items:
        if is_long(item.nodeid):
            item.add_marker(pytest.mark.long)


@pytest.hookimpl(trylast=True)  # after all fixtures
def pytest_sessionfinish() -> None:
    stop_postgres_server()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write what tests have told, and what they did not close, whichever process they ran in."""
    ended = ("passed", "failed", "error")
    reports = [report for kind in ended for report in terminalreporter.getreports(kind)]
    told = [
        f"{report.nodeid}: {value}"
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == TOLD
    ]
    not_closed = [
        f"{report.nodeid}: {line.strip(' |')}"
        for report in reports
        for line in report.longreprtext.splitlines()
        if "ResourceWarning: " in line
    ]
    for title, lines in (("told by tests", told), ("not closed before, or in", not_closed)):
        if lines:
            terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def log_settings() -> Iterator[None]:
    """Commands that run in this process set up its logs; the next test has them as they were."""
    yield
    structlog.reset_defaults()


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


@pytest.fixture(scope="session")
def tool_runner() -> Iterator["ToolRunner"]:
    """Kafka's stock tools in a JVM that stays."""
    from tests.oracle.tool_runner import tool_runner  # noqa: PLC0415 - few tests need it

    with tool_runner() as runner:
        yield runner


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


@pytest.fixture(scope="session")
def rounds() -> int:
    return ROUNDS


@pytest.fixture
def dice(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Return what a test's random choices are made with; the same for the same seed.

    A failure tells the seed, wherever it comes.
    """
    request.node.add_report_section("setup", "seed", f"CRASH_SEED={seed}")
    return random.Random(f"{seed} {request.node.name}")
