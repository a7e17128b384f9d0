"""Which groups are taken together: a request may name thousands that are not in memory.

Those that are wanted in one turn of the event loop, and those that come while statements are under
way, go into one statement per LOADED_TOGETHER, of which few are under way at a time.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

LOADED_TOGETHER: Final = 100
LOADS_AT_A_TIME: Final = 2

Begin = Callable[[Sequence[str], bool], asyncio.Task[None]]
"""Takes groups, creating those that there are not if told so."""


class GroupLoads:
    """The groups that wait to be taken; the caller sees to it that none waits twice."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._wanted: dict[bool, deque[str]] = {False: deque(), True: deque()}
        self._creates = False
        self._under_way = 0
        self._is_scheduled = False

    def want(self, group_id: str, *, create: bool) -> None:
        """Have a group taken, with those that are wanted at the same time."""
        self._wanted[create].append(group_id)
        self._schedule()

    def clear(self) -> list[str]:
        """Take none of those that still wait; return them."""
        waiting = [group_id for queue in self._wanted.values() for group_id in queue]
        for queue in self._wanted.values():
            queue.clear()
        return waiting

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        while self._under_way < LOADS_AT_A_TIME and any(self._wanted.values()):
            if self._wanted[not self._creates]:  # by turns, while there are both
                self._creates = not self._creates
            queue = self._wanted[self._creates]
            together = [queue.popleft() for _ in range(min(len(queue), LOADED_TOGETHER))]
            self._under_way += 1
            self._begin(together, self._creates).add_done_callback(self._ended)

    def _ended(self, _task: asyncio.Task[None]) -> None:
        self._under_way -= 1
        self._schedule()
