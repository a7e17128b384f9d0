"""Long lists, gone through without keeping the event loop from everybody else."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

MANY: Final = 200
"""Of what takes some microseconds each."""


async def in_turns(items: Sequence[T]) -> AsyncIterator[T]:
    """Yield each; other requests get their turn after every MANY."""
    for at, item in enumerate(items, start=1):
        yield item
        if at % MANY == 0:
            await asyncio.sleep(0)
