"""Gives memory that is free back to the operating system.

Large requests come and go among small objects that stay, and glibc keeps what lies free between
them: under many requests of a megabyte a process grows that holds nothing of them any more. So what
is larger than most requests gets pages of its own, which go back when it does; the rest is given
back now and then.
"""

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

INTERVAL_S: Final = 20.0

LARGE_BYTES: Final = 2 * 1024 * 1024
"""Requests of clients with default settings have up to 1 MiB: new pages for each would take half a
second of a processor for a gigabyte, a fifth of all that it takes. Bodies of objects have 8 MiB."""

KEPT_BYTES: Final = 16 * 1024 * 1024
"""What lies free at the end of the heap until it is given back, for the requests that come next."""

_M_TRIM_THRESHOLD: Final = -1  # mallopt(3)
_M_MMAP_THRESHOLD: Final = -3


def keep_large_apart() -> None:
    """Give LARGE_BYTES and more pages of their own, where the libc can be told.

    Left alone, glibc does so from 128 KiB on, but only until the first such piece is let go: from
    its size on then. And it keeps twice as much at the end of the heap; told the one, it no longer
    finds the other by itself, and would give back, and take anew, each megabyte that is let go.
    """
    tell: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is not None:
        tell(_M_MMAP_THRESHOLD, LARGE_BYTES)
        tell(_M_TRIM_THRESHOLD, KEPT_BYTES)


def find_trim() -> Callable[[int], int] | None:
    """Return malloc_trim(3), which keeps so many bytes on top; None where the libc has none."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


async def return_memory() -> None:
    """Do it for ever; it takes milliseconds, without the interpreter's lock."""
    keep_large_apart()
    trim = find_trim()
    while True:
        await asyncio.sleep(INTERVAL_S)
        if trim is not None:
            await asyncio.to_thread(trim, 0)
