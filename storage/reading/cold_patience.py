"""How long one read waits for the object store; what it waits for goes on, others share it."""

import asyncio
from collections.abc import Collection
from typing import Any, Final

PATIENCE_S: Final = 16.0
"""A little longer than the store has for an answer (storage/config.py, S3Config), and much less
than the 30 s in which clients expect theirs. Who is told that it takes longer comes again, and
finds what has come meanwhile; who is told nothing goes, and what it wanted goes on for nobody."""

NOT_IN_TIME: Final = "no answer in time"


def now_s() -> float:
    """Return the time of the event loop: `until_s` is one everywhere."""
    return asyncio.get_running_loop().time()


async def wait_until(until_s: float, waiting: Collection[asyncio.Future[Any]]) -> None:
    """Wait for these, but no longer than that; they are not cancelled."""
    await asyncio.wait(waiting, timeout=max(until_s - now_s(), 0.0))
