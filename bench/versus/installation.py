"""This broker as its users have it: installed without what only its tests need.

A library that the broker imports imports hypothesis where it finds it, and pytest's packages are
found wherever the tests run. That is a fifth of a second of each start, which no user waits for.
Nor does one for modules to be compiled: who installs a wheel has that behind him.

The interpreter is the distribution's, if it is new enough: like those of the image and of packages
it is built with a profile of its own work. What a version manager has compiled on the machine often
is not, and then takes a quarter longer for the same Python code.
"""

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.broker import BrokerFailed

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ".cache/installed"
COMPILE: Final = ("-m", "compileall", "-q", "broker", "coordinator", "protocol", "sql", "storage")
DISTRIBUTION: Final = Path("/usr/bin/python3")
NEW_ENOUGH: Final = "import sys; sys.exit(sys.version_info < (3, 11))"
VERSION: Final = "import platform, sys; print(platform.python_version(), sys.base_prefix)"


@functools.cache
def installed_python() -> str:
    """Return the interpreter of an installation from `uv.lock`, made now if it is not there.

    Raises:
        BrokerFailed: it cannot be made; the message says why.
    """
    made = _run("make", "--silent", f"{HOME}/.stamp", *_chosen())
    if made.returncode != 0:
        raise BrokerFailed(f"the broker could not be installed\n{made.stderr}")
    python = str(ROOT / HOME / "bin/python")
    compiled = _run(python, *COMPILE)
    if compiled.returncode != 0:
        raise BrokerFailed(f"the broker could not be compiled\n{compiled.stdout}")
    return python


def installed_version() -> str:
    """Return that interpreter's version, and where it lies."""
    return _run(installed_python(), "-c", VERSION).stdout.strip()


def _chosen() -> Sequence[str]:
    """Return what tells make to take the distribution's interpreter; nothing for that on PATH."""
    if not DISTRIBUTION.exists() or _run(str(DISTRIBUTION), "-c", NEW_ENOUGH).returncode:
        return ()
    return (f"INSTALLED_PYTHON={DISTRIBUTION}",)


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 (our own arguments)
        command, cwd=ROOT, check=False, capture_output=True, text=True
    )
