"""How much of what clients have sent may be held at a time (queued.max.request.bytes).

A frame is counted from the moment its memory is allocated until its request is answered, which for
Produce is when its records are committed. So a slow object store fills this budget, connections
stop being read, and TCP slows the producers down; nothing is dropped.

A request that waits for other clients (JoinGroup, SyncGroup) lets go of its frame before that: it
may wait for minutes, and those it waits for need memory, too.
"""

import sys
from collections import deque
from collections.abc import Callable


class MemoryBudget:
    """First come, first served; a frame larger than the whole budget is let in alone.

    Who is in the middle of a frame that is counted must go on receiving it, whatever is used: else
    those who wait would wait for each other.

    Args:
        limit_bytes: negative for no limit.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes if limit_bytes >= 0 else sys.maxsize
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._paused: deque[Callable[[], None]] = deque()
        self.used_bytes = 0

    @property
    def exhausted(self) -> bool:
        return self.used_bytes >= self._limit_bytes

    def take(self, size: int) -> None:
        """Count a frame that is already here (small ones are never held back half-way)."""
        self.used_bytes += size

    def try_take(self, size: int) -> bool:
        """Count a frame if it fits and nobody waits before it."""
        if self._waiting or not self._fits(size):
            return False
        self.used_bytes += size
        return True

    def wait(self, size: int, granted: Callable[[], None]) -> None:
        """Call `granted` once the frame is counted."""
        self._waiting.append((size, granted))

    def wait_for_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once the budget is no longer exhausted; nobody waits before it."""
        self._paused.append(resume)

    def withdraw(self, waiting: Callable[[], None]) -> None:
        """Stop waiting: the connection is gone."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != waiting)
        self._paused = deque(resume for resume in self._paused if resume != waiting)
        self._grant()

    def give_back(self, size: int) -> None:
        self.used_bytes -= size
        self._grant()

    def _fits(self, size: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size <= self._limit_bytes

    def _grant(self) -> None:
        while self._paused and not self.exhausted:
            self._paused.popleft()()
        while self._waiting and self._fits(self._waiting[0][0]):
            size, granted = self._waiting.popleft()
            self.used_bytes += size
            granted()


class HeldMemory:
    """The memory of one frame, given back once: with the answer, or before."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        self._budget = budget
        self._size = size

    def give_back(self) -> None:
        """Count it no longer; called again, this does nothing."""
        size, self._size = self._size, 0
        if size:
            self._budget.give_back(size)
