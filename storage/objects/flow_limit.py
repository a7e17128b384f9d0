"""How many requests of one kind an object store is asked at a time: fewer once it says SlowDown.

503 SlowDown and 429 are flow control, not failure. As TCP does, the limit halves when the store
says so, once for all requests that were under way together, and grows by one for each round of
answers (AIMD). All requests of the kind pause as well, for a time that doubles while the store goes
on saying it, so that the tries of different callers do not add up to the rate that it refused.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

FIRST_PAUSE_S: Final = 0.1
MOST_PAUSE_S: Final = 2.0


class FlowLimit:
    """Places for requests; first come, first served.

    Attributes:
        throttled: how often the store has asked for less.
    """

    def __init__(self, most: int, *, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._limit = float(most)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._pause_s = FIRST_PAUSE_S
        self._paused_until_s = clock()
        self._begun = 0  # requests so far; what began before the last cut does not cut again
        self._cut_at = 0
        self.throttled = 0

    @property
    def limit(self) -> int:
        """How many may be under way now."""
        return int(self._limit)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[int]:
        """Wait for a place, and hold it for the length of the block.

        Yields:
            the number of this request, for `answered` and `refused`.
        """
        await self._enter()
        try:
            await self._pause()
            self._begun += 1
            yield self._begun
        finally:
            self._in_flight -= 1
            self._admit()

    def answered(self) -> None:
        """Take note of an answer other than SlowDown."""
        self._limit = min(self._limit + 1 / self._limit, self._most)
        self._pause_s = FIRST_PAUSE_S
        self._admit()

    def refused(self, number: int) -> None:
        """Take note that the store refused request `number` for its rate."""
        self.throttled += 1
        if number <= self._cut_at:
            return
        self._cut_at = self._begun
        self._limit = max(min(self._limit, self._in_flight) / 2, 1.0)
        self._paused_until_s = self._clock() + self._pause_s
        self._pause_s = min(self._pause_s * 2, MOST_PAUSE_S)

    async def _pause(self) -> None:
        while (left_s := self._paused_until_s - self._clock()) > 0:  # noqa: ASYNC110 (it may grow)
            # a little longer, at random: what waited together does not go together
            await asyncio.sleep(left_s * random.uniform(1, 1.5))  # noqa: S311 (not a secret)

    async def _enter(self) -> None:
        if self._in_flight < self.limit and not self._waiting:
            self._in_flight += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it had been given the place
                self._in_flight -= 1
                self._admit()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _admit(self) -> None:
        while self._waiting and self._in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)
