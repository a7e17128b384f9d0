"""Gives memory that is free back to the operating system.

Large requests come and go among small objects that stay, and glibc keeps what lies free between
them: under many requests of a megabyte a process grows that holds nothing of them any more. So what
is larger than most requests gets pages of its own, which go back when it does; the rest is given
back now and then, and soon while the process grows.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

LOOK_S: Final = 2.0
LOOKS: Final = 10
"""Memory is given back at every so manieth look, whether the process has grown or not."""

GROWN_BYTES: Final = 32 * 1024 * 1024
"""Under load what lies free grows by that within seconds, to hundreds of megabytes if it may."""

LARGE_BYTES: Final = 2 * 1024 * 1024
"""Requests of clients with default settings have up to 1 MiB: new pages for each would take half a
second of a processor for a gigabyte, a fifth of all that it takes. Bodies of objects have 8 MiB."""

KEPT_BYTES: Final = 16 * 1024 * 1024
"""What lies free at the end of the heap until it is given back, for the requests that come next."""

_M_TRIM_THRESHOLD: Final = -1  # mallopt(3)
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def prepare_memory() -> None:
    """Give LARGE_BYTES and more pages of their own, where the libc can be told; before any thread.

    Left alone, glibc does so from 128 KiB on, but only until the first such piece is let go: from
    its size on then. And it keeps twice as much at the end of the heap; told the one, it no longer
    finds the other by itself, and would give back, and take anew, each megabyte that is let go.

    Threads get no heaps of their own: what lies free in one's is of no use to others, and as Python
    lets one at a time ask for memory, none waits for another.
    """
    tell: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is not None:
        tell(_M_MMAP_THRESHOLD, LARGE_BYTES)
        tell(_M_TRIM_THRESHOLD, KEPT_BYTES)
        tell(_M_ARENA_MAX, 1)


def find_trim() -> Callable[[int], int] | None:
    """Return malloc_trim(3), which keeps so many bytes on top; None where the libc has none."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


class MemoryReturn:
    """Decides when memory is given back.

    Args:
        trim: gives it back.
        resident: returns how much the process has.
    """

    def __init__(self, trim: Callable[[int], int], resident: Callable[[], int]) -> None:
        self._trim = trim
        self._resident = resident
        self._least_bytes = resident()
        self._looks = 0

    async def look(self) -> None:
        """Give memory back if there is more since it was least, or if it is time to."""
        self._looks += 1
        now_bytes = self._resident()
        self._least_bytes = min(self._least_bytes, now_bytes)
        if now_bytes - self._least_bytes > GROWN_BYTES or self._looks >= LOOKS:
            await asyncio.to_thread(self._trim, 0)
            self._looks, self._least_bytes = 0, self._resident()


def resident_bytes() -> int:
    """Return the memory that the process has (proc(5))."""
    return int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES


async def return_memory() -> None:
    """Do it for ever; it takes milliseconds, without the interpreter's lock."""
    trim = find_trim()
    if trim is None or not _STATM.exists():
        return
    memory = MemoryReturn(trim, resident_bytes)
    while True:
        await asyncio.sleep(LOOK_S)
        with suppress(OSError, RuntimeError):  # no descriptor, or no thread, is left for now
            await memory.look()
