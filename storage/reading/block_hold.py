"""The pieces that one reader needs: they stay in the block cache until it has them."""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from storage.errors import ObjectStoreUnavailable
from storage.reading.block_cache import BlockCache
from storage.reading.block_get import BlockGet
from storage.reading.cold_patience import NOT_IN_TIME, wait_until
from storage.reading.read_plan import Key, Piece
from storage.runs import Run


class Hold:
    """What one reader needs, until the end of a `with` block, and until its GETs have ended.

    Were it let go of before, others would begin theirs behind them, and drop what these bring.

    Attributes:
        until_s: how long it waits; the GETs go on after that.
        ahead_bytes: read ahead for it, or here already, behind what it needs.
    """

    def __init__(
        self,
        blocks: BlockCache,
        until_s: float = math.inf,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        self._blocks = blocks
        self._let_go = let_go
        self.until_s = until_s
        self._gets: list[BlockGet] = []
        self._runs: dict[Key, asyncio.Future[Run]] = {}
        self.ahead_bytes = 0

    def add(self, needed: Iterable[Piece], ahead: Iterable[Sequence[Piece]] = ()) -> None:
        """Begin to fetch what is not in the cache: `run` will be asked for what is needed."""
        gets, ahead_bytes = self._blocks.load(needed, ahead)
        self.ahead_bytes += ahead_bytes
        for get in gets:
            self._gets.append(get)
            self._runs.update(get.runs)

    async def ready(self, pieces: Iterable[Piece]) -> None:
        """Wait until `run` has an answer for all of these, but not for longer than it may."""
        runs = [self._runs.get(piece.key) for piece in pieces]
        waiting = [run for run in runs if run is not None and not run.done()]
        if waiting:
            await wait_until(self.until_s, waiting)

    def run(self, piece: Piece) -> Run:
        """Return a piece that is ready.

        Raises:
            BadObject, ObjectStoreUnavailable: it cannot be read, or not in time, or was not added.
        """
        if piece.entry.inline is not None:
            return piece.parse(memoryview(bytearray(piece.entry.inline)))
        run = self._runs.get(piece.key)
        if run is None or not run.done():
            raise ObjectStoreUnavailable(f"{piece.entry.path}: {NOT_IN_TIME}")
        return run.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        under_way = [get.task for get in self._gets if get.task is not None]
        if under_way:
            ended = asyncio.gather(*under_way, return_exceptions=True)
            ended.add_done_callback(lambda _: self._release())
        else:
            self._release()

    def _release(self) -> None:
        self._blocks.release(self._gets)
        self._let_go()
