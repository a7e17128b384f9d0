"""Processes that give way do so on systems that share processors out among sessions, too."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from broker.upkeep import giving_way

AUTOGROUP: Final = Path("/proc/self/autogroup")
CHILD: Final = """
import json, os
from pathlib import Path
from broker.upkeep.giving_way import give_way

give_way(7)
group = Path("/proc/self/autogroup")
print(json.dumps([os.nice(0), os.getsid(0) == os.getpid(), group.exists() and group.read_text()]))
"""


def test_a_process_that_gives_way_has_a_session_that_does() -> None:
    # Given what this session has
    before = AUTOGROUP.read_text() if AUTOGROUP.exists() else ""

    # When a process of it gives way
    run = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    niceness, leads_session, group = json.loads(run.stdout)

    # Then it does so in a session of its own, which is as nice where the system knows that
    assert niceness == min(os.nice(0) + 7, 19)
    assert leads_session
    if before:
        assert group.endswith(" nice 7\n")
        assert AUTOGROUP.read_text() == before


@pytest.mark.parametrize(
    ("enabled", "groups", "has_weight", "expected"),
    [
        ("1", "0::/\n", False, True),
        ("1", "1:cpu:/\n0::/\n", False, True),
        ("1", "4:memory:/limited\n1:cpu,cpuacct:/\n", False, True),
        ("0", "0::/\n", False, False),
        (None, "0::/\n", False, False),
        ("1", "1:cpu,cpuacct:/docker/1f\n", False, False),
        ("1", "0::/system.slice/broker.service\n", True, False),
        ("1", "0::/user.slice/session-1.scope\n", False, True),
    ],
)
def test_only_a_session_with_a_share_of_its_own_takes_what_is_idle(
    enabled: str | None,
    groups: str,
    has_weight: bool,
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a system with autogroups or without, and control groups that replace them or do not
    if enabled is not None:
        (tmp_path / "enabled").write_text(f"{enabled}\n")
    (tmp_path / "groups").write_text(groups)
    if has_weight:
        own = tmp_path / "unified" / groups.strip().removeprefix("0::/")
        own.mkdir(parents=True)
        (own / "cpu.weight").write_text("100\n")
    monkeypatch.setattr(giving_way, "_ENABLED", tmp_path / "enabled")
    monkeypatch.setattr(giving_way, "_CONTROL_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(giving_way, "_UNIFIED", str(tmp_path / "unified"))
    policies: list[int] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, policy, __: policies.append(policy))

    # When a process takes what is idle, then it does where it has a share all the same
    giving_way.take_what_is_idle()
    assert policies == ([os.SCHED_IDLE] if expected else [])
