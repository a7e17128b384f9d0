"""Waiting for futures until some time, without a task or a timer for each wait.

There is a wait for each Produce, thousands a second; nearly always it ends long before its time.
"""

import asyncio
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final

MOST_OVER: Final = 1024
"""Waits that are over, and that something else hides, before they are looked for."""

LOOK_S: Final = 60.0
"""No timer is longer: what was waited for may be over long before, and its client gone."""


class Wait:
    """Calls `then` once: when all futures are done, or when it is ended before.

    Args:
        futures: at least one; which are done, and how, they tell themselves.
        then: must not raise.
    """

    __slots__ = ("_left", "_then")

    def __init__(self, futures: Sequence[asyncio.Future[Any]], then: Callable[[], None]) -> None:
        self._left = len(futures)
        self._then: Callable[[], None] | None = then
        for future in futures:
            future.add_done_callback(self)

    @property
    def is_over(self) -> bool:
        """Whether it has called."""
        return self._then is None

    def __call__(self, _: asyncio.Future[Any]) -> None:
        self._left -= 1
        if self._left == 0:
            self.end()

    def end(self) -> None:
        """Call, unless it has."""
        then, self._then = self._then, None
        if then is not None:
            then()


class Timeouts:
    """Ends waits whose time is over, with one timer for all of them.

    A wait that ended by itself is forgotten when it would be the next to end; with one timeout for
    all, which clients have, that is at once.
    """

    __slots__ = ("_loop", "_numbers", "_timer", "_waits")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        self._waits: list[tuple[float, int, Wait]] = []  # a heap, by when they end
        self._timer: asyncio.TimerHandle | None = None

    def add(self, wait: Wait, timeout_s: float) -> None:
        """End the wait after that time."""
        waits = self._waits
        while waits and waits[0][2].is_over:
            heappop(waits)
        if len(waits) > MOST_OVER:
            self._waits = waits = [one for one in waits if not one[2].is_over]
            heapify(waits)
        end_s = self._loop.time() + timeout_s
        heappush(waits, (end_s, next(self._numbers), wait))
        if self._timer is None or end_s < self._timer.when():
            self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        look_s = self._loop.time() + LOOK_S
        self._timer = self._loop.call_at(min(self._waits[0][0], look_s), self._expire)

    def _expire(self) -> None:
        self._timer = None
        waits, now_s = self._waits, self._loop.time()
        while waits and (waits[0][2].is_over or waits[0][0] <= now_s):
            heappop(waits)[2].end()
        if waits:
            self._schedule()
