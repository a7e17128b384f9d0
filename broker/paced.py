"""A costly job that many may ask for, and nobody shall be able to fill the event loop with."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from broker.shared_load import shared_task

Result = TypeVar("Result")

REST: Final = 4.0


class Paced(Generic[Result]):
    """Runs `job`, one at a time, with rests between; callers share a run.

    Whoever calls gets a run that began afterwards: an answer is never older than its question. A
    run is followed by a rest of REST times as long, so that jobs take a fifth of the time at most.

    Args:
        longest_rest_s: for jobs that mostly wait.
    """

    def __init__(
        self,
        job: Callable[[], Awaitable[Result]],
        *,
        longest_rest_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._job = job
        self._longest_rest_s = longest_rest_s
        self._clock = clock
        self._turn = asyncio.Lock()
        self._resume_s = float("-inf")
        self._next: asyncio.Task[Result] | None = None

    async def run(self) -> Result:
        """Return what the job returns; raises what it raises."""
        if self._next is None:
            self._next = shared_task(self._run_in_turn())
        return await asyncio.shield(self._next)

    async def _run_in_turn(self) -> Result:
        async with self._turn:
            await asyncio.sleep(max(self._resume_s - self._clock(), 0))
            self._next = None
            began_s = self._clock()
            try:
                return await self._job()
            finally:
                ended_s = self._clock()
                rest_s = REST * (ended_s - began_s)
                self._resume_s = ended_s + min(rest_s, self._longest_rest_s)
