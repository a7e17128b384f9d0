"""A test that failed is postponed if the host took much of the processors, and only then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = """
from itertools import count
from pathlib import Path

from tests.support.garbage import FailedTestsGarbage
from tests.support.host import Attempts
from tests.support.postponing import Postponing

seconds, taken = count(), [0.0]

def pytest_configure(config):
    attempts = Attempts(lambda: taken[0], lambda: float(next(seconds)))
    file = None if hasattr(config, "workerinput") else Path("lists/again")
    config.pluginmanager.register(FailedTestsGarbage())
    config.pluginmanager.register(Postponing(attempts, file))
"""
TESTS = """
import gc
import socket

import pytest
from conftest import taken

@pytest.fixture(scope="module")
def broker():
    taken[0] += 5
    raise TimeoutError("no broker")

def test_disturbed():
    left_open = [socket.socket()]
    left_open.append(left_open)
    taken[0] += 5
    assert not "a second later"

def test_collects_garbage():
    gc.collect()

def test_undisturbed():
    left_open = [socket.socket()]
    left_open.append(left_open)
    assert not "wrong"

def test_collects_more_garbage():
    gc.collect()

def test_passes():
    taken[0] += 5

def test_asks_a_broker(broker):
    pass

def test_asks_the_same_broker(broker):
    pass
"""
OPTIONS = ("-p", "no:cacheprovider", "-p", "xdist.plugin", "-W", "error")
STACKS = ("-o", "faulthandler_timeout=60")  # of what hangs; seconds
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take seconds, and have no part in it
POSTPONED = ["test_disturbed", "test_asks_a_broker", "test_asks_the_same_broker"]


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["one", "workers"])
def test_a_failure_counts_unless_the_host_was_busy(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    # Given tests, and a host that took much while some of them failed
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)

    # When all run, and those that it disturbed
    every = _pytest(tmp_path, *processes)
    again = (tmp_path / "lists/again").read_text().splitlines()
    disturbed = _pytest(tmp_path, *processes, "@lists/again")

    # Then only the other one has failed, not what came after a test that could not close a socket,
    # and they are listed with what was wrong
    assert every.returncode == pytest.ExitCode.TESTS_FAILED, every.stdout
    assert "1 failed, 3 passed, 3 postponed" in every.stdout
    assert "test_asks_the_same_broker: TimeoutError: no broker" in every.stdout
    assert again == [f"test_some.py::{name}" for name in POSTPONED]
    assert disturbed.returncode == pytest.ExitCode.OK, disturbed.stdout
    assert "3 postponed" in disturbed.stdout


def _pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, *STACKS, *arguments],
            cwd=folder,
            env={**os.environ, **ALONE, "PYTHONPATH": f"{ROOT}:{folder}", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=240,  # seconds; two on a quiet machine, 60 were once too few on a busy one
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"{late}\n{late.stdout!r}\n{late.stderr!r}") from None
