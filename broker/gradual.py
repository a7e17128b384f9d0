"""Long answers are made bit by bit, without keeping the event loop from everybody else."""

import asyncio
from collections.abc import Iterable
from typing import Final, TypeVar

Part = TypeVar("Part")

MADE_AT_ONCE: Final = 500
"""Parts that are made in one turn of the event loop, which takes a few milliseconds."""


class Gradually:
    """Makes the parts of one answer, however they are nested; what it makes shows no one moment."""

    def __init__(self) -> None:
        self._left = MADE_AT_ONCE

    async def made(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        """Return all parts; an iterator makes them as they are asked for."""
        made = []
        for part in parts:
            made.append(part)
            self._left -= 1
            if self._left == 0:
                self._left = MADE_AT_ONCE
                await asyncio.sleep(0)
        return tuple(made)
