"""Reads again what cannot be read: one bad answer says nothing of an object."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

AGAIN_AFTER_S: Final = (0.1, 0.5)

T = TypeVar("T")


async def read_thrice(read: Callable[[bool], Awaitable[T]], bad: tuple[type[Exception], ...]) -> T:
    """Return the first good answer of three.

    Args:
        read: is told whether it is the last time.
        bad: what it raises for a bad answer; the third one is raised to the caller.
    """
    for pause_s in AGAIN_AFTER_S:
        with suppress(*bad):
            return await read(False)
        await asyncio.sleep(pause_s)
    return await read(True)
