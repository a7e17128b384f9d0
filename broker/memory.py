"""How much of what clients have sent may be held at a time (queued.max.request.bytes).

A frame is counted from the moment its memory is allocated until its request is answered, which for
Produce is when its records are committed. So a slow object store fills this budget, connections
stop being read, and TCP slows the producers down; nothing is dropped.
"""

from collections import deque
from collections.abc import Callable


class MemoryBudget:
    """First come, first served; a frame larger than the whole budget is let in alone."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
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

    def withdraw(self, granted: Callable[[], None]) -> None:
        """Stop waiting: the connection is gone."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != granted)
        self._grant()

    def give_back(self, size: int) -> None:
        self.used_bytes -= size
        self._grant()

    def _fits(self, size: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size <= self._limit_bytes

    def _grant(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, granted = self._waiting.popleft()
            self.used_bytes += size
            granted()
