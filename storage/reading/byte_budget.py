"""Bytes that may be in use at a time; first come, first served."""

import asyncio
from collections import deque


class ByteBudget:
    """Each user takes all it needs at once, so that no two wait for each other."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.used_bytes = 0

    async def take(self, size: int, *, until_s: float) -> None:
        """Have `size` bytes until they are given back; more than all there are is had alone.

        Raises:
            TimeoutError: others had them until then, a time of the event loop.
        """
        if self._waiting or not self._fits(size):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                async with asyncio.timeout_at(until_s):
                    await turn
            except (asyncio.CancelledError, TimeoutError):
                if turn.done() and not turn.cancelled():  # it had been granted
                    self.give_back(size)
                elif (size, turn) in self._waiting:
                    self._waiting.remove((size, turn))
                    self._grant()  # those behind may be smaller
                raise
        else:
            self.used_bytes += size

    def give_back(self, size: int) -> None:
        self.used_bytes -= size
        self._grant()

    def _fits(self, size: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size <= self.limit_bytes

    def _grant(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self.used_bytes += size
                turn.set_result(None)
