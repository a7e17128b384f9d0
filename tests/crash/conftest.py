"""Settings and directories of the crash tests.

CRASH_SEED repeats a run's faults, as far as the machine plays along; every run prints its seed.
CRASH_ROUNDS=n makes n times as many faults of each kind. (Not STREAMHOUSE_…: those are the
broker's, which inherits them and refuses what it does not know.)
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Tell
from tests.crash.checks import report, violations
from tests.crash.ledger import Ledger

Judge = Callable[[Ledger], None]


@pytest.fixture
def data() -> Iterator[Path]:
    """Return a folder whose path is short enough for a socket in it."""
    home = Path(tempfile.mkdtemp(prefix="streamhouse-crash-", dir="/tmp"))
    try:
        yield home
    finally:
        shutil.rmtree(home)


@pytest.fixture
def judge(seed: int, tell: Tell) -> Judge:
    """Return a function that tells a ledger's summary and fails on any violation."""

    def check(ledger: Ledger) -> None:
        tell(f"seed={seed} {ledger.summary()}")
        found = violations(ledger)
        assert not found, f"seed {seed}\n{report(found)}"

    return check
