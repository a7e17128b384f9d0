"""A query that brings a copy of what is in Postgres up to date, for many who ask at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

import structlog

from storage.errors import MetadataUnavailable
from storage.outage import Outage

POLL_S: Final = 1.0

log = structlog.get_logger()

Result = TypeVar("Result")


def shared_task(work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
    """Begin what several wait for; they may all have gone when it fails, which is no error then."""
    task = asyncio.create_task(work)
    task.add_done_callback(_hear)
    return task


def _hear(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()


class SharedLoad:
    """Runs `load`, one at a time; callers share one that began after each of them had asked.

    One that is under way may be too old for who asks now: what was altered before the call, and
    acknowledged, has to be in its answer.
    """

    def __init__(self, load: Callable[[], Awaitable[None]]) -> None:
        self._load = load
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Load; raises what `load` raises."""
        if self._next is None:
            self._next = shared_task(self._load_in_turn())
        await asyncio.shield(self._next)

    async def poll(self, news: str, every_s: float = POLL_S) -> None:
        """Load every so many seconds until cancelled; while Postgres is away, the log says so."""
        outage = Outage()
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.run()
                outage.end()
            except MetadataUnavailable as error:
                if outage.take_warning():
                    log.warning("no news", of=news, reason=str(error))

    async def _load_in_turn(self) -> None:
        async with self._turn:
            self._next = None
            await self._load()
