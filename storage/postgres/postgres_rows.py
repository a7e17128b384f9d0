"""Rows of Postgres, of which an answer may have very many."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

ROWS_AT_ONCE: Final = 200
"""In one turn of the event loop, of ten microseconds each."""

R = TypeVar("R")
T = TypeVar("T")


async def read_rows(rows: Sequence[R], read: Callable[[R], T]) -> list[T]:
    """Return what `read` makes of each, and let the event loop go on meanwhile."""
    made: list[T] = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        made += [read(row) for row in rows[start : start + ROWS_AT_ONCE]]
        if len(made) < len(rows):
            await asyncio.sleep(0)
    return made
