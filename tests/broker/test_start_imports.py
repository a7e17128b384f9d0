"""What a start waits for: Postgres is being formatted while the modules of the broker come."""

import subprocess
import sys
from typing import Final

LATER: Final = ("asyncpg", "broker.app", "storage.metadata", "kio.schema", "obstore")
"""Each takes 20 ms or more, and nothing of it is needed to read settings."""

CHILD: Final = "import sys, broker.serve_command; print(*sys.modules)"


def test_settings_are_read_without_what_only_a_running_broker_needs() -> None:
    told = subprocess.run([sys.executable, "-c", CHILD], check=True, capture_output=True, text=True)
    loaded = told.stdout.split()
    assert "broker.config" in loaded
    assert not [name for name in LATER if name in loaded]
