"""What a start waits for: Postgres is being formatted while the modules of the broker come."""

import signal
import subprocess
import sys
from typing import Final

LATER: Final = ("asyncpg", "broker.app", "storage.metadata.port", "kio.schema", "obstore")
"""Each takes 20 ms or more, and nothing of it is needed to read settings."""

CHILD: Final = "import sys, broker.serve_command; print(*sys.modules)"


def test_settings_are_read_without_what_only_a_running_broker_needs() -> None:
    told = subprocess.run([sys.executable, "-c", CHILD], check=True, capture_output=True, text=True)
    loaded = told.stdout.split()
    assert "broker.config" in loaded
    assert not [name for name in LATER if name in loaded]


INTERRUPTED: Final = """
import os, signal, sys, types
command = types.SimpleNamespace(app=lambda: os.kill(os.getpid(), signal.SIGINT))
sys.modules["broker.serve_command"] = command
from broker.main import main
main()
"""


def test_ctrl_c_before_the_event_loop_leaves_no_traceback() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], check=False, capture_output=True, text=True
    )
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr == ""
