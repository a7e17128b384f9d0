"""Waiting for futures until some time, without a task or a timer for each wait.

There is a wait for each Produce, thousands a second; nearly always it ends long before its time.
"""

import asyncio
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final

MOST_OVER: Final = 1024
"""Waits that are over, and that something else hides, before they are looked for."""

_END_S: Final = itemgetter(0)

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
    all, which clients have, that is at once, and each new wait is the last.
    """

    __slots__ = ("_look_at", "_loop", "_timer", "_waits")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waits: deque[tuple[float, Wait]] = deque()  # in the order in which they end
        self._look_at = MOST_OVER
        self._timer: asyncio.TimerHandle | None = None

    def add(self, wait: Wait, timeout_s: float) -> None:
        """End the wait after that time."""
        waits = self._waits
        while waits and waits[0][1].is_over:
            waits.popleft()
        if len(waits) > self._look_at:
            self._waits = waits = deque(one for one in waits if not one[1].is_over)
            self._look_at = max(2 * len(waits), MOST_OVER)  # they may all be under way
        end_s = self._loop.time() + timeout_s
        if waits and end_s < waits[-1][0]:
            insort(waits, (end_s, wait), key=_END_S)
        else:
            waits.append((end_s, wait))
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
        while waits and (waits[0][1].is_over or waits[0][0] <= now_s):
            waits.popleft()[1].end()
        if waits:
            self._schedule()
