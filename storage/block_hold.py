"""The pieces that one reader needs: they stay in the block cache until it has them."""

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from storage.block_cache import BlockCache, Fetch
from storage.read_plan import Key, Piece
from storage.runs import Run


class Hold:
    """What one reader needs, until the end of a `with` block."""

    def __init__(self, blocks: BlockCache) -> None:
        self._blocks = blocks
        self._fetches: list[Fetch] = []
        self._runs: dict[Key, asyncio.Future[Run]] = {}

    def add(self, needed: Iterable[Piece], ahead: Iterable[Sequence[Piece]] = ()) -> None:
        """Begin to fetch what is not in the cache: `run` will be asked for what is needed."""
        for fetch in self._blocks.load(needed, ahead):
            self._fetches.append(fetch)
            self._runs.update(fetch.runs)

    async def run(self, piece: Piece) -> Run:
        """Wait for a piece.

        Raises:
            CorruptObject, ObjectMissing, ObjectStoreUnavailable: it cannot be read.
        """
        if piece.entry.inline is not None:
            return piece.parse(memoryview(bytearray(piece.entry.inline)))
        return await asyncio.shield(self._runs[piece.key])  # others share it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._blocks.release(self._fetches)
