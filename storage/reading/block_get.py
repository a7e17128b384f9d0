"""One GET of the block cache, and what it brings (storage/reading/block_cache.py)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from storage.reading.read_plan import Key, Piece
from storage.runs import Run


@dataclass(eq=False, slots=True)
class BlockGet:
    """One GET and what it brings.

    Attributes:
        size: bytes, with what is around them.
        runs: one of each piece.
        holds: readers that need some of it.
        unread: read ahead, and nobody has come for it yet.
        done: all runs are known.
    """

    pieces: Sequence[Piece]
    size: int
    runs: dict[Key, asyncio.Future[Run]]
    unread: bool
    holds: int = 0
    done: bool = False
    task: "asyncio.Task[None] | None" = None

    @property
    def kept(self) -> int:
        """Bytes whose place read-ahead must not take."""
        return self.size if self.unread or self.holds or not self.done else 0
