"""The short form of `python -m tests.abuse`: attackers of every kind beside good clients."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import Tell

ROOT: Final = Path(__file__).parents[2]
PLAN: Final = ("--seconds", "15", "--alone-s", "3", "--slow", "300")

# A machine that runs other things, too, has pauses of its own; the long run holds the real limits.
LIMITS: Final = ("--p99-ratio", "20", "--lag-p99-ms", "500")


@pytest.mark.alone
def test_good_clients_hardly_notice(tmp_path: Path, tell: Tell) -> None:
    # Given a broker, good clients, and for each kind of attack an attacker, When all of them work
    found = tmp_path / "found.json"
    run = subprocess.run(
        [sys.executable, "-m", "tests.abuse", *PLAN, *LIMITS, "--json", str(found)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    # Then memory, event loop, log and the good clients stay within their limits
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-3000:]
    figures = json.loads(found.read_text())["figures"]
    assert figures["attackers"]["slow: silent"] > 0
    shown = ("broker RSS grew, MiB", "loop lag p99, ms", "acknowledged: p99 ratio")
    tell(", ".join(f"{name}: {figures[name]}" for name in shown))
