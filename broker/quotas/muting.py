"""For how long a connection is muted (KIP-219), and the timer that ends it."""

import asyncio
import math
from collections.abc import Callable


class Muting:
    """One per connection.

    Args:
        over: is called when the time is over, unless `end` came before.

    Attributes:
        is_on: whether it is muted now.
    """

    __slots__ = ("_loop", "_over", "_timer", "_until_s", "is_on")

    def __init__(self, over: Callable[[], None]) -> None:
        self.is_on = False
        self._over = over
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def extend(self, wait_s: float) -> None:
        """Mute for that long from now, or for longer if it is muted for longer already."""
        until_s = self._loop.time() + wait_s
        if until_s <= self._until_s:
            return
        self.end()
        self.is_on, self._until_s = True, until_s
        self._timer = self._loop.call_at(until_s, self._expire)

    def end(self) -> bool:
        """Be muted no longer; return whether it was."""
        was_on, self.is_on, self._until_s = self.is_on, False, 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return was_on

    def close(self) -> None:
        """Be muted never again, and let go of who would be told: the peer is gone."""
        self.end()
        self._over = _nobody

    def left_ms(self) -> int:
        """Return for how much longer it is muted."""
        if not self.is_on:
            return 0
        return max(math.ceil((self._until_s - self._loop.time()) * 1000), 0)

    def _expire(self) -> None:
        self.end()
        self._over()


def _nobody() -> None:
    """Tell nobody."""
