"""This broker as its users have it: installed without what only its tests need.

A library that the broker imports imports hypothesis where it finds it, and pytest's packages are
found wherever the tests run. That is a fifth of a second of each start, which no user waits for.
"""

import functools
import subprocess
from pathlib import Path
from typing import Final

from tests.support.broker import BrokerFailed

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ".cache/installed"


@functools.cache
def installed_python() -> str:
    """Return the interpreter of an installation from `uv.lock`, made now if it is not there.

    Raises:
        BrokerFailed: it cannot be made; the message says why.
    """
    made = subprocess.run(  # noqa: S603 (our own arguments)
        ("make", "--silent", f"{HOME}/.stamp"),  # noqa: S607 (whichever make the README's user has)
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        raise BrokerFailed(f"the broker could not be installed\n{made.stderr}")
    return str(ROOT / HOME / "bin/python")
