"""Long lists are gone through bit by bit, without keeping the event loop from everybody else."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

MANY: Final = 200
"""Items in one turn of the event loop, of some microseconds each."""


class Gradually:
    """Goes through the lists of one request, however they are nested.

    Other requests get their turn after every MANY items, so what is made shows no one moment.
    """

    def __init__(self) -> None:
        self._left = MANY

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield each; an iterator makes them as they are asked for."""
        for item in items:
            yield item
            self._left -= 1
            if self._left == 0:
                self._left = MANY
                await asyncio.sleep(0)

    async def made(self, parts: Iterable[T]) -> tuple[T, ...]:
        """Return all parts."""
        rest, made = iter(parts), list[T]()
        while some := list(islice(rest, self._left)):
            made += some
            self._left -= len(some)
            if self._left == 0:
                self._left = MANY
                await asyncio.sleep(0)
        return tuple(made)
