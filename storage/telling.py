"""When objects without batches are stored, which tell what no other object does (untold.py)."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from protocol.control_batch import EndMarker
from protocol.ids import Partition
from storage.untold import QUIET_S, Told, Untold

log = structlog.get_logger()


class Telling:
    """Stores them, one at a time; none while there is nothing to be told.

    Args:
        untold: what there is to be told.
        store: begins to store an object that tells this.
    """

    def __init__(self, untold: Untold, store: Callable[[Told], asyncio.Task[None]]) -> None:
        self._untold = untold
        self._store = store
        self._task: asyncio.Task[None] | None = None
        self._look: asyncio.Handle | None = None
        self._closed = False

    def ended(self, marker: EndMarker, offsets: Mapping[Partition, int]) -> None:
        """Take note of the end of a transaction.

        Args:
            marker: that was written.
            offsets: of the marker in each partition of the transaction.
        """
        self._untold.ended(marker, offsets)
        self.begin()

    def begin(self) -> None:
        """Look after what there is to be told now, until it is."""
        if self._look is not None or self._closed or self._is_under_way():
            return
        wait_s = self._untold.wait_s()
        if wait_s is not None:
            loop = asyncio.get_running_loop()
            self._look = loop.call_later(min(wait_s, QUIET_S), self._tell_due)

    async def finish(self, deadline_s: float) -> None:
        """Tell all that there is by now; what is not told by the deadline is left."""
        try:
            async with asyncio.timeout(deadline_s):
                if self._task is not None:
                    await asyncio.wait([self._task])
                self._tell()
                if self._task is not None:
                    await asyncio.wait([self._task])
        except TimeoutError:
            log.warning("shutdown before the store tells all offsets and ends of transactions")

    def close(self) -> None:
        """Begin no more."""
        self._closed = True
        if self._look is not None:
            self._look.cancel()

    def _tell_due(self) -> None:
        self._look = None
        if self._untold.wait_s() == 0:
            self._tell()
        self.begin()

    def _tell(self) -> None:
        told = self._untold.take_all()
        if any(told):
            self._task = self._store(told)
            self._task.add_done_callback(lambda _: self.begin())

    def _is_under_way(self) -> bool:
        return self._task is not None and not self._task.done()
