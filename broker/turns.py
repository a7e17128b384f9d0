"""Turns at something that only few can have at a time, shared fairly between hosts or the like."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Hosts take turns, and so do those of one host; a host may be whatever has a name.

    Whoever comes with a thousand connections waits for itself: others are delayed by one turn for
    each host that waits. Who is cancelled does not wait any more.

    Args:
        places: turns that can be had at the same time.
    """

    def __init__(self, places: int = 1) -> None:
        self._free = places
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}

    @asynccontextmanager
    async def of(self, host: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it for the length of the block."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(host)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, host: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(host, {})[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(host, turn)
            else:  # it came in the same moment
                self._pass_on()
            raise

    def _forget(self, host: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(host, {})
        turns.pop(turn, None)
        if not turns:
            self._waiting.pop(host, None)

    def _pass_on(self) -> None:
        """Give the turn to the host that has waited longest since its last one."""
        while self._waiting:
            host = next(iter(self._waiting))
            turns = self._waiting.pop(host)
            turn = next(iter(turns))
            del turns[turn]
            if turns:
                self._waiting[host] = turns  # behind all others
            if not turn.done():  # else it was cancelled just now
                turn.set_result(None)
                return
        self._free += 1
