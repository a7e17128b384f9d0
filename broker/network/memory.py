"""How much of what clients have sent may be held at a time (queued.max.request.bytes).

A frame is counted from the moment its memory is allocated until its request is answered, which for
Produce is when its records are committed; so are, once it has begun, the objects around it, which
are larger than a small one. So a slow object store fills this budget, producers' connections stop
being read, and TCP slows them down; nothing is dropped. Who appends nothing does not suffer for
that: small requests of connections that have sent no Produce have a reserve beyond the budget, so
that consumers go on, members keep their groups, and topics can be deleted where a disk is full.
What is in the reserve and turns out to be a Produce does not begin before there is room in the
budget: it is forgotten with its connection, so producers that give up and come back do not fill it.

A request that waits for other clients (Fetch, JoinGroup, SyncGroup) lets go of its frame before
that: it may wait for minutes, and those it waits for need memory, too.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from broker.network.outbox import Backlog

RESERVE_PART: Final = 8
"""The reserve is this part of the budget: 32 MiB of 256."""

REQUEST_BYTES: Final = 3 * 1024
"""What a Produce of one batch takes beyond its frame while it waits for its commit."""

_Line = OrderedDict[Callable[[], None], None]
"""Who waits, the first one first. Ten thousand may, and leave at once when their patience ends:
each is to be found in no time, which a deque cannot, and so is the first, which a dict cannot."""


class MemoryBudget:
    """First come, first served; a frame larger than the whole budget is let in alone.

    A large frame is counted as it grows. Were the memory full of unfinished ones, all would wait
    for each other; so one at a time may grow whatever is used, until it is whole.

    Args:
        limit_bytes: negative for no limit.

    Attributes:
        used_bytes: of all frames.
        begun_bytes: of those among them whose requests are under way; the others wait to begin.
        backlog: of answers, which are not part of it: whoever does not read would else keep others
            from asking.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes if limit_bytes >= 0 else sys.maxsize
        self._reserve_bytes = self.limit_bytes // RESERVE_PART
        self._waiting: OrderedDict[Callable[[], None], int] = OrderedDict()
        self._growing: OrderedDict[Callable[[], None], tuple[int, object]] = OrderedDict()
        self._paused: _Line = OrderedDict()  # until the budget has room
        self._halted: _Line = OrderedDict()  # until the reserve has
        self._held_back: OrderedDict[Callable[[], None], int] = OrderedDict()
        self._beyond: object = None  # who may grow whatever is used
        self.used_bytes = self.begun_bytes = 0
        self.backlog = Backlog()

    def has_room(self, *, appends: bool) -> bool:
        """Whether small requests may come of a connection that appends, or of one that does not."""
        reserve = 0 if appends else self._reserve_bytes
        return self.used_bytes < self.limit_bytes + reserve

    @property
    def contended(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting or self._growing or self._paused or self._halted)

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
        self._waiting[granted] = size

    def try_grow(self, size: int, owner: object) -> bool:
        """Count more of a frame that is counted in part, if it fits or its turn has come."""
        if not (self._may_grow(size, owner) and (owner is self._beyond or not self._growing)):
            return False
        self._grow(size, owner)
        return True

    def wait_to_grow(self, size: int, owner: object, granted: Callable[[], None]) -> None:
        """Call `granted` once so much more is counted."""
        self._growing[granted] = (size, owner)

    def is_whole(self, owner: object) -> None:
        """Take note that a frame grows no more: it is whole, or its sender is gone."""
        if owner is self._beyond:
            self._beyond = None
            self._grant()

    def wait_for_room(self, resume: Callable[[], None], *, appends: bool) -> None:
        """Call `resume` once there is room; no large frame waits before it."""
        (self._paused if appends else self._halted)[resume] = None

    def wait_to_begin(self, size: int, resume: Callable[[], None]) -> None:
        """Call `resume` once so much is counted as begun, after less has than the limit."""
        self._held_back[resume] = size

    def withdraw(self, *waiting: Callable[[], None]) -> None:
        """Stop waiting: the connection is gone, or is to wait."""
        for each in waiting:
            self._waiting.pop(each, None)
            self._growing.pop(each, None)
            self._held_back.pop(each, None)
            self._paused.pop(each, None)
            self._halted.pop(each, None)
        self._grant()

    def give_back(self, size: int) -> None:
        self.used_bytes -= size
        self._grant()

    def _fits(self, size: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size <= self.limit_bytes

    def _may_grow(self, size: int, owner: object) -> bool:
        fits = self.used_bytes + size <= self.limit_bytes
        return fits or self._beyond is None or self._beyond is owner

    def _grow(self, size: int, owner: object) -> None:
        self.used_bytes += size
        if self.used_bytes > self.limit_bytes:
            self._beyond = owner

    def _grant(self) -> None:
        while self._held_back and self.begun_bytes < self.limit_bytes:
            resume, size = self._held_back.popitem(last=False)
            self.begun_bytes += size  # else all who wait would be called, and most for nothing
            resume()
        while self._halted and self.has_room(appends=False):
            self._halted.popitem(last=False)[0]()
        while self._paused and self.has_room(appends=True):
            self._paused.popitem(last=False)[0]()
        while self._growing and self._may_grow(*next(iter(self._growing.values()))):
            granted, (size, owner) = self._growing.popitem(last=False)
            self._grow(size, owner)
            granted()
        while self._waiting and self._fits(next(iter(self._waiting.values()))):
            granted, size = self._waiting.popitem(last=False)
            self.used_bytes += size
            granted()


class HeldMemory:
    """The memory of one frame whose request begins; given back once: with the answer, or before."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        self._budget = budget
        self._size = size
        budget.begun_bytes += size

    def give_back(self) -> None:
        """Count it no longer; called again, this does nothing."""
        size, self._size = self._size, 0
        if size:
            self._budget.begun_bytes -= size
            self._budget.give_back(size)
