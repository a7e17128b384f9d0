"""Processes that give way do so on systems that share processors out among sessions, too."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

AUTOGROUP: Final = Path("/proc/self/autogroup")
CHILD: Final = """
import json, os
from pathlib import Path
from broker.giving_way import give_way

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
    assert niceness == 7
    assert leads_session
    if before:
        assert group.endswith(" nice 7\n")
        assert AUTOGROUP.read_text() == before
