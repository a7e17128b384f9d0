"""When something becomes due for a group, by the time of its machine."""

import asyncio
from collections.abc import Callable
from typing import Final

STANDSTILL_MS: Final = 100
"""A timer that is so late tells that this process, or its machine, stood still."""

READING_MS: Final = 1_000
"""After it heartbeats are read that came meanwhile, for as long as it took, but no longer."""


def loop_ms() -> int:
    """Return the time of the machines: the event loop's, which never goes back."""
    return round(asyncio.get_running_loop().time() * 1000)


class GroupTimer:
    """One per group in memory.

    Args:
        due: is called with the deadline when it is over.
    """

    def __init__(self, due: Callable[[int], None]) -> None:
        self._due = due
        self._handle: asyncio.TimerHandle | None = None
        self._deadline_ms: int | None = None
        self._is_held = False

    def arm(self, deadline_ms: int | None) -> None:
        """Have one deadline, in place of the one before, or none."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._deadline_ms = deadline_ms
        if deadline_ms is not None and not self._is_held:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_at(deadline_ms / 1000, self._fire, deadline_ms)

    def hold(self) -> None:
        """Let nothing be due until `release`."""
        self._is_held = True
        self.arm(self._deadline_ms)

    def release(self) -> None:
        """Let be due what has become so meanwhile."""
        self._is_held = False
        self.arm(self._deadline_ms)

    def close(self) -> None:
        """Let nothing be due any more, and let go of who would be told."""
        self._due = _nobody
        if self._handle is not None:
            self._handle.cancel()

    def _fire(self, deadline_ms: int) -> None:
        """Be due; after a standstill only when what members sent meanwhile has been read."""
        late_ms = loop_ms() - deadline_ms
        if late_ms < STANDSTILL_MS:
            self._be_due(deadline_ms)
            return
        wait_s = min(late_ms, READING_MS) / 1000
        self._handle = asyncio.get_running_loop().call_later(wait_s, self._be_due, deadline_ms)

    def _be_due(self, deadline_ms: int) -> None:
        self._handle = self._deadline_ms = None
        self._due(deadline_ms)


def _nobody(_: int) -> None:
    """Tell nobody."""
