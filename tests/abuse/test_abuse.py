"""The short form of `python -m tests.abuse`: attackers of every kind beside good clients."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.abuse.verdict import Outcome
from tests.abuse.watch import metric
from tests.conftest import Tell

ROOT: Final = Path(__file__).parents[2]
PLAN: Final = ("--seconds", "15", "--alone-s", "3", "--slow", "300")

# A machine that runs other things, too, has pauses of its own; the long run holds the real limits.
LIMITS: Final = ("--p99-ratio", "20", "--lag-p99-ms", "500")

ATTACKS: Final = {"bomb", "came and went", "garbage", "login", "request", "slow"}


@pytest.mark.alone
def test_good_clients_hardly_notice(tmp_path: Path, tell: Tell) -> None:
    # Given a broker, good clients, and for each kind of attack an attacker, When all of them work
    found = tmp_path / "found.json"
    run = subprocess.run(
        [sys.executable, "-m", "tests.abuse", *PLAN, *LIMITS, "--json", str(found)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,  # seconds; 80 on a quiet machine
        check=False,
    )

    # Then memory, event loop, log and the good clients stay within their limits
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-3000:]

    # And attackers of no kind were kept from their work
    figures = json.loads(found.read_text())["figures"]
    done = {name.partition(":")[0] for name in figures["attackers"]}
    assert done >= ATTACKS, figures["attackers"]
    shown = ("broker RSS grew, MiB", "loop lag p99, ms", "acknowledged: p99 ratio")
    tell(", ".join(f"{name}: {figures[name]}" for name in shown))


def test_what_is_not_told_is_not_within_its_limit() -> None:
    outcome = Outcome()
    outcome.hold("request memory", metric("", "streamhouse_request_memory_bytes"), 2**20)
    assert outcome.wrong == ["request memory: inf, at most 1.04858e+06"]
