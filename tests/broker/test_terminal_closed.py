"""A terminal that is closed stops its broker in good order, but for one that nohup started."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.processes import postgres_pid
from tests.support.broker import start_broker
from tests.support.wire import WireClient

NOHUP: Final = """#!/bin/sh
trap '' HUP
exec {python} "$@"
"""


@pytest.fixture(autouse=True)
def heeds_terminal() -> Iterator[None]:
    """Start brokers as a terminal does, though nohup may have started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_broker_ends_with_its_terminal_and_its_postgres_with_it(tmp_path: Path) -> None:
    broker = start_broker(tmp_path, own_imports=True)  # else it ignores what the first one did
    broker.process.send_signal(signal.SIGHUP)
    assert broker.process.wait(10) == 0
    assert postgres_pid(tmp_path / "postgres") is None
    assert broker.stop() == 0


async def test_a_broker_that_is_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    # Given a broker that ignores what a closed terminal sends
    python = tmp_path / "python"
    python.write_text(NOHUP.format(python=sys.executable))
    python.chmod(0o755)
    broker = start_broker(tmp_path / "data", python=str(python))

    # When its terminal is closed, then it serves
    broker.process.send_signal(signal.SIGHUP)
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            await wire.create_topic("log")
    finally:
        assert broker.stop() == 0
