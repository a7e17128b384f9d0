"""Threads for calls that block, such as those of a file system, awaited by one event loop.

What an executor of the standard library does for each call takes the event loop 60 calls; this
takes two. And a call may have something to do that its caller need not wait for.
"""

import asyncio
import errno
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar

SWITCH_S: Final = 0.0005
"""How long a thread that comes back from the system waits for the interpreter lock at most; it does
that some ten times for one PUT, and Python's 5 ms are longer than all of a PUT takes."""

Result_co = TypeVar("Result_co", covariant=True)


class Work(Protocol[Result_co]):
    """What a thread does."""

    def run(self) -> Result_co:
        """Return what the caller waits for, or raise."""

    def tidy(self) -> None:
        """Do what the caller need not wait for; raises nothing. Also called after `run` raised."""


class WorkerThreads:
    """At most `most` threads, begun when they are first needed; used by one event loop.

    Where the system has no more of them to give, those that there are do the work.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._queue: SimpleQueue[tuple[asyncio.Future[Any], Work[Any]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._closed = False

    def run(self, work: Work[Result_co]) -> asyncio.Future[Result_co]:
        """Return what `work` will return; it goes on if that is cancelled.

        Raises:
            OSError: the system has no thread to give, and there is none yet.
            RuntimeError: they were shut down.
        """
        future: asyncio.Future[Result_co] = asyncio.get_running_loop().create_future()
        if self._closed:  # nobody would ever do it
            raise RuntimeError(f"no more work for {self._name}: it was shut down")
        if self._busy >= len(self._threads) < self._most:
            self._begin_thread()
        self._busy += 1
        self._queue.put((future, work))
        return future

    def shutdown(self) -> None:
        """Return when all work is done; there must be no more."""
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _begin_thread(self) -> None:
        if sys.getswitchinterval() > SWITCH_S:
            sys.setswitchinterval(SWITCH_S)
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # what Python makes of it
            if not self._threads:
                raise OSError(errno.EAGAIN, str(error)) from error
        else:
            self._threads.append(thread)

    def _serve(self) -> None:
        while (taken := self._queue.get()) is not None:
            future, work = taken
            result: Any = None
            error: BaseException | None = None
            try:
                result = work.run()
            except BaseException as raised:  # noqa: BLE001 (it is the caller's)
                error = raised
                work.tidy()
            with suppress(RuntimeError):  # the loop was closed: nobody waits
                future.get_loop().call_soon_threadsafe(self._deliver, future, result, error)
            if error is None:
                work.tidy()
            del taken, future, work, result, error  # not until the next work comes

    def _deliver(
        self, future: asyncio.Future[Any], result: object, error: BaseException | None
    ) -> None:
        self._busy -= 1
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
