"""Gives memory that is free back to the operating system, now and then.

Large requests come and go among small objects that stay, and glibc keeps what lies free between
them: under many requests of a megabyte a process grows that holds nothing of them any more.
"""

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

INTERVAL_S: Final = 20.0


def find_trim() -> Callable[[int], int] | None:
    """Return malloc_trim(3), which keeps so many bytes on top; None where the libc has none."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


async def return_memory() -> None:
    """Do it for ever; it takes milliseconds, without the interpreter's lock."""
    trim = find_trim()
    while True:
        await asyncio.sleep(INTERVAL_S)
        if trim is not None:
            await asyncio.to_thread(trim, 0)
