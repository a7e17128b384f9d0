"""This broker as its users have it: installed without what only its tests need.

A library that the broker imports imports hypothesis where it finds it, and pytest's packages are
found wherever the tests run. That is a fifth of a second of each start, which no user waits for.
"""

import functools
import os
import subprocess
from pathlib import Path
from typing import Final

from tests.support.broker import BrokerFailed

ROOT: Final = Path(__file__).parents[2]
UV: Final = ROOT / ".cache/uv/bin/uv"
HOME: Final = ROOT / ".cache/installed"


@functools.cache
def installed_python() -> str:
    """Return the interpreter of an installation from `uv.lock`, made now if it is not there.

    Raises:
        BrokerFailed: it cannot be made; the message says why.
    """
    command = (
        *(str(UV), "sync", "--quiet", "--locked", "--no-dev", "--compile-bytecode"),
        *("--no-python-downloads", "--python", str(ROOT / ".venv/bin/python")),
    )
    environment = {
        **os.environ,
        "UV_PROJECT_ENVIRONMENT": str(HOME),
        "TMPDIR": str(UV.parents[1]),  # where its lock is left
    }
    try:
        subprocess.run(  # noqa: S603 (our own arguments)
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        )
    except FileNotFoundError as error:
        raise BrokerFailed(f"{UV} is missing: `make .venv/.test-stamp` installs it") from error
    except subprocess.CalledProcessError as error:
        raise BrokerFailed(f"the broker could not be installed\n{error.stderr}") from error
    return str(HOME / "bin/python")
