"""Steps that many brokers do again and again at the same time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import asyncpg

from storage.errors import MetadataUnavailable

ENOUGH: Final = 6
MOST_S: Final = 120.0
TOO_LATE: Final = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)

B = TypeVar("B")
Step = Callable[[B], Awaitable[None]]


class Turns(Generic[B]):
    """For some seconds, and until each step was done ENOUGH times, however slow the machine is.

    Args:
        load_s: how long at least; after MOST_S it is over in any case.
        is_enough: tells whether what else has to happen did.

    Attributes:
        done: how often each step was done, by its name.
    """

    def __init__(self, load_s: float, is_enough: Callable[[], bool] = lambda: True) -> None:
        self.done: dict[str, int] = {}
        self._load_s = load_s
        self._is_enough = is_enough
        self._began_s = 0.0

    async def take(self, steps: Sequence[tuple[Step[B], B]]) -> None:
        """Let each step be done by its broker, again and again."""
        self.done = {step.__name__: 0 for step, _ in steps}
        self._began_s = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for step, broker in steps:
                tasks.create_task(self._keep(step, broker))

    async def _keep(self, step: Step[B], broker: B) -> None:
        while self._goes_on():
            try:
                await step(broker)
            except MetadataUnavailable as failure:
                # A disk that stands still for seconds; a deadlock is found within one.
                if not isinstance(failure.__cause__, TOO_LATE):
                    raise
            else:
                self.done[step.__name__] += 1

    def _goes_on(self) -> bool:
        elapsed_s = time.monotonic() - self._began_s
        is_done = min(self.done.values()) >= ENOUGH and self._is_enough()
        return elapsed_s < self._load_s or (elapsed_s < MOST_S and not is_done)
