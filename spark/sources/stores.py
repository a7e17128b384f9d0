"""The object stores that this process reads, for generators that are no coroutines.

Spark asks a worker for records with plain iterators, one task after the other; GETs run ahead
meanwhile on an event loop in a thread. Stores stay open between tasks of a worker: to open one of
S3 takes longer than to read a small split. A process that was forked has its own.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from spark.log_location import LogLocation
from storage.objects.port import ObjectStore

T = TypeVar("T")

_END = object()


class Stores:
    """An event loop in a thread, and the stores opened there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gets", daemon=True)
        self._thread.start()
        self._open: dict[str, ObjectStore] = {}
        self._turn = asyncio.Lock()
        self._exit = AsyncExitStack()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine that runs on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def store(self, location: LogLocation) -> ObjectStore:
        """Return the store of a log, open until the process ends. Called on the loop.

        Raises:
            ObjectStoreUnavailable: it cannot be opened.
        """
        async with self._turn:
            if location.store not in self._open:
                store = await self._exit.enter_async_context(location.objects())
                self._open[location.store] = store
            return self._open[location.store]

    def iterate(self, source: AsyncGenerator[T]) -> Generator[T]:
        """Yield what a generator on the loop yields; it is closed when this is."""
        try:
            while True:
                item = self.run(_next(source))
                if item is _END:
                    return
                yield item  # type: ignore[misc]  # no end, hence a T
        finally:
            self.run(source.aclose())

    def close(self) -> None:
        """Close all stores and end the thread."""
        self.run(self._exit.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next(source: AsyncGenerator[T]) -> T | object:
    return await anext(source, _END)


_stores: dict[int, Stores] = {}  # by process id: a fork takes no thread with it


def stores() -> Stores:
    """Return those of this process; made at the first call."""
    found = _stores.get(os.getpid())
    if found is None:
        found = Stores()
        _stores.clear()
        _stores[os.getpid()] = found
    return found
