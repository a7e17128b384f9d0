"""How the background work goes on for ever: rounds at intervals, workers as long as there is work.

Where Postgres or the object store gives no answer, the same is tried again, with backoff, and the
log has one line when it begins and one when it is over. A bug in the work on one partition is at
the cost of that one (storage/upkeep/resting_partitions.py). Everything else that is raised is a
bug, too, and ends the process: nothing half alive goes on.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from broker.upkeep.upkeep_report import UpkeepCounts, Work
from storage.backoff import Backoff
from storage.config import YEAR_MS
from storage.errors import MetadataUnavailable, ObjectStoreUnavailable
from storage.metadata.tasks import TaskStore

UNAVAILABLE: Final = (MetadataUnavailable, ObjectStoreUnavailable)
FIRST_RETRY_S: Final = 0.1
RETRY_AT_MOST_S: Final = 10.0
LOOK_AT_LEAST_MS: Final = 100
LOOK_AT_MOST_MS: Final = 10_000
"""Whether a round is due is asked at least so often: who did it until now may be gone."""

T = TypeVar("T")

log = structlog.get_logger()


class Loops:
    """Runs the work of one process.

    Args:
        metadata: says whose turn a round is.
        counts: takes note of each success and failure.
    """

    def __init__(self, metadata: TaskStore, counts: UpkeepCounts) -> None:
        self._metadata = metadata
        self._counts = counts
        self._planned = {work: asyncio.Event() for work in Work}

    async def rounds(
        self, work: Work, every_ms: Callable[[], int], do: Callable[[], Awaitable[object]]
    ) -> None:
        """Do it once in `every_ms`, of all brokers together, until cancelled.

        Args:
            work: what is done.
            every_ms: returns the interval as it is now; more than a year, which Postgres may be
                unable to add to a time, counts as one.
            do: one round.
        """

        def begin() -> Awaitable[bool]:
            return self._metadata.begin_round(work, min(every_ms(), YEAR_MS))

        while True:
            if await self.insist(work, begin):
                await self.insist(work, do)
                self._counts.succeeded(work)
                self._planned[work].set()
            look_s = max(min(every_ms(), LOOK_AT_MOST_MS), LOOK_AT_LEAST_MS) / 1000
            await asyncio.sleep(look_s * random.uniform(1.0, 1.1))  # noqa: S311 (brokers spread)

    async def tasks(
        self, work: Work, every_ms: Callable[[], int], do: Callable[[], Awaitable[object]]
    ) -> None:
        """Do one task after the other, until cancelled.

        Args:
            work: what they are planned by.
            every_ms: returns after how long without a task it is asked for one again.
            do: one task; returns nothing, or False, if there was none.
        """
        planned = self._planned[work]
        while True:
            planned.clear()
            if await self.insist(work, do):
                continue
            try:
                async with asyncio.timeout(max(every_ms(), LOOK_AT_LEAST_MS) / 1000):
                    await planned.wait()
            except TimeoutError:
                continue  # another broker may have planned some

    async def insist(self, what: str, do: Callable[[], Awaitable[T]]) -> T:
        """Do it until Postgres and the object store have answered."""
        backoff = Backoff(first_s=FIRST_RETRY_S, most_s=RETRY_AT_MOST_S)
        waits = False
        while True:
            try:
                result = await do()
            except UNAVAILABLE as error:
                self._counts.failed(what)
                if not waits:
                    log.warning("upkeep waits", what=str(what), reason=str(error))
                waits = True
                await backoff.wait()
            else:
                if waits:
                    log.info("upkeep goes on", what=str(what))
                return result
