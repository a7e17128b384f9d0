"""What the host of this machine leaves to it.

A virtual machine may lose nine tenths of its processors to its neighbours for minutes; every time
limit is then exceeded by chance. A test that failed while its host took much of them is run again
(`postponing`); one that fails otherwise has failed.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

MUCH: Final = 0.2
MOST: Final = 0.95
"""How much of the time counts as waiting at most."""
_PRESSURE: Final = Path("/proc/pressure/cpu")
_SOME: Final = re.compile(r"^some .*total=(\d+)", re.MULTILINE)


def stolen_s() -> float:
    """Return the seconds that the host took of each processor so far, on the average."""
    stolen: float = getattr(psutil.cpu_times(), "steal", 0.0)
    return stolen / (os.cpu_count() or 1)


class Attempts:
    """One test, or part of one, after the other."""

    def __init__(
        self,
        stolen_s: Callable[[], float] = stolen_s,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stolen_s = stolen_s
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """The next one begins."""
        self._began = (self._clock(), self._stolen_s())

    def was_disturbed(self) -> bool:
        """Tell whether the host has taken much of the processors since then."""
        elapsed_s = self._clock() - self._began[0]
        return self._stolen_s() - self._began[1] >= MUCH * elapsed_s > 0


class Stopwatch:
    """How long something takes, from now on, and for how much of that others had the processors."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s, self._waited_s = clock(), _waited_s()

    def elapsed_s(self) -> float:
        """Return the seconds since it was made."""
        return self._clock() - self._began_s

    def waited_s(self) -> float:
        """Return for how many of them there was somebody who had to wait.

        That is the time in which tasks were ready and had no processor (the kernel's PSI, where it
        has that) and the time that the host took. On a machine that has nothing else to do it is
        next to nothing; on one where somebody always has to wait it is MOST of the time, so that
        there, too, a bound is exceeded some day.
        """
        return min(_waited_s() - self._waited_s, MOST * self.elapsed_s())

    def is_within(self, bound_s: float) -> bool:
        """Tell whether less has passed than that, and as much longer as somebody had to wait."""
        return self.elapsed_s() < bound_s + self.waited_s()


def _waited_s() -> float:
    some = _SOME.search(_PRESSURE.read_text()) if _PRESSURE.exists() else None
    return stolen_s() + (int(some[1]) / 1e6 if some else 0.0)
