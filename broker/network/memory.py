"""How much of what clients have sent may be held at a time (queued.max.request.bytes).

A frame is counted from the moment its memory is allocated until its request is answered, which for
Produce is when its records are committed; so are, once it has begun, the objects around it, which
are larger than a small one. So a slow object store fills this budget, connections stop being read,
and TCP slows the producers down; nothing is dropped.

A request that waits for other clients (Fetch, JoinGroup, SyncGroup) lets go of its frame before
that: it may wait for minutes, and those it waits for need memory, too.
"""

import sys
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.network.outbox import Backlog

REQUEST_BYTES: Final = 3 * 1024
"""What a Produce of one batch takes beyond its frame while it waits for its commit."""


class MemoryBudget:
    """First come, first served; a frame larger than the whole budget is let in alone.

    A large frame is counted as it grows. Were the memory full of unfinished ones, all would wait
    for each other; so one at a time may grow whatever is used, until it is whole.

    Args:
        limit_bytes: negative for no limit.

    Attributes:
        backlog: of answers, which are not part of it: whoever does not read would else keep others
            from asking.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes if limit_bytes >= 0 else sys.maxsize
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._growing: deque[tuple[int, object, Callable[[], None]]] = deque()
        self._paused: deque[Callable[[], None]] = deque()
        self._beyond: object = None  # who may grow whatever is used
        self.used_bytes = 0
        self.backlog = Backlog()

    @property
    def exhausted(self) -> bool:
        return self.used_bytes >= self._limit_bytes

    @property
    def contended(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting or self._growing or self._paused)

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

    def try_grow(self, size: int, owner: object) -> bool:
        """Count more of a frame that is counted in part, if it fits or its turn has come."""
        if not (self._may_grow(size, owner) and (owner is self._beyond or not self._growing)):
            return False
        self._grow(size, owner)
        return True

    def wait_to_grow(self, size: int, owner: object, granted: Callable[[], None]) -> None:
        """Call `granted` once so much more is counted."""
        self._growing.append((size, owner, granted))

    def is_whole(self, owner: object) -> None:
        """Take note that a frame grows no more: it is whole, or its sender is gone."""
        if owner is self._beyond:
            self._beyond = None
            self._grant()

    def wait_for_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once the budget is no longer exhausted; nobody waits before it."""
        self._paused.append(resume)

    def withdraw(self, waiting: Callable[[], None]) -> None:
        """Stop waiting: the connection is gone."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != waiting)
        self._growing = deque(entry for entry in self._growing if entry[2] != waiting)
        self._paused = deque(resume for resume in self._paused if resume != waiting)
        self._grant()

    def give_back(self, size: int) -> None:
        self.used_bytes -= size
        self._grant()

    def _fits(self, size: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size <= self._limit_bytes

    def _may_grow(self, size: int, owner: object) -> bool:
        fits = self.used_bytes + size <= self._limit_bytes
        return fits or self._beyond is None or self._beyond is owner

    def _grow(self, size: int, owner: object) -> None:
        self.used_bytes += size
        if self.used_bytes > self._limit_bytes:
            self._beyond = owner

    def _grant(self) -> None:
        while self._paused and not self.exhausted:
            self._paused.popleft()()
        while self._growing and self._may_grow(*self._growing[0][:2]):
            size, owner, granted = self._growing.popleft()
            self._grow(size, owner)
            granted()
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
