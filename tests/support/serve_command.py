"""`streamhouse serve`, run to its end: for starts that fail."""

import subprocess
import sys
from pathlib import Path


def serve(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run it in this repository, with no other variables than these."""
    return subprocess.run(
        [sys.executable, "-m", "broker.main", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", **environment},
        cwd=Path(__file__).parents[2],
        check=False,
    )
