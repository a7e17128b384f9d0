"""A second, identical GET where the answer does not begin to come; whichever answers first wins.

A few requests to an object store take a hundred times as long as the others, and asking again on
another connection is the cure. Objects are immutable, so any answer is as good as another. A second
request is sent after what 95 of 100 recent ones needed, and for no more than 5 % of all, so that a
store which is slow as a whole is not asked for twice as much.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

LEAST_LIMIT_S: Final = 0.4
RECENT: Final = 200
PERCENTILE: Final = 0.95
SHARE: Final = 0.05
MOST_TOKENS: Final = 8.0

Result = TypeVar("Result")
Attempt = Callable[[], Coroutine[Any, Any, Result]]


class HedgedGets:
    """Attributes: hedged counts second requests; won those that answered first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._recent_s: deque[float] = deque(maxlen=RECENT)
        self._tokens = 1.0
        self.hedged = 0
        self.won = 0

    @property
    def limit_s(self) -> float:
        """After this time without an answer the same is asked again."""
        if not self._recent_s:
            return LEAST_LIMIT_S
        ordered = sorted(self._recent_s)
        return max(ordered[int((len(ordered) - 1) * PERCENTILE)], LEAST_LIMIT_S)

    async def first(
        self, attempt: "Attempt[Result]", discard: Callable[[Result], Awaitable[None]]
    ) -> Result:
        """Return the first answer; what the other one brings, if it does, is discarded.

        Args:
            attempt: sends a request; its result is there when the first byte of the answer is.
            discard: releases a result that nobody wants.

        Raises:
            what `attempt` raises, once no request is under way any more.
        """
        self._tokens = min(self._tokens + SHARE, MOST_TOKENS)
        began_s = self._clock()
        tasks = [asyncio.create_task(attempt())]
        try:
            await asyncio.wait(tasks, timeout=self.limit_s)
            if not tasks[0].done() and self._tokens >= 1:
                self._tokens -= 1
                self.hedged += 1
                tasks.append(asyncio.create_task(attempt()))
            winner = await _first_success(tasks)
        except BaseException:
            await _discard(tasks, discard)
            raise
        self.won += winner is not tasks[0]
        self._recent_s.append(self._clock() - began_s)
        try:
            await _discard([task for task in tasks if task is not winner], discard)
        except BaseException:
            await _discard([winner], discard)
            raise
        return winner.result()


async def _first_success(tasks: "list[asyncio.Task[Result]]") -> "asyncio.Task[Result]":
    """Return the task that succeeds first; if none does, raise what the last one raised."""
    running = set(tasks)
    while True:
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        succeeded = [task for task in tasks if task in done and task.exception() is None]
        if succeeded:
            return succeeded[0]
        if not running:
            done.pop().result()  # raises


async def _discard(
    tasks: "list[asyncio.Task[Result]]", discard: Callable[[Result], Awaitable[None]]
) -> None:
    """Give up requests; whatever fails meanwhile, all of them have ended then."""
    async with AsyncExitStack() as endings:
        for task in tasks:
            task.cancel()
            endings.push_async_callback(_end, task, discard)


async def _end(task: "asyncio.Task[Result]", discard: Callable[[Result], Awaitable[None]]) -> None:
    """Wait for a request that was given up; its answer may have come all the same."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error  # heard when nothing is left behind
    try:
        if not task.cancelled() and task.exception() is None:
            await discard(task.result())
    finally:
        if cancelled is not None:
            raise cancelled
