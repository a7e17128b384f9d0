"""Groups that were lost and may have members are taken over again, together and not at once.

Their members may be gone, and nobody would miss them. A group that is lost again and again, by a
bug, must not keep Postgres busy.
"""

import asyncio
from typing import Final

TAKE_AGAIN_AFTER_S: Final = 1.0


class GroupRetake:
    """One timer for all groups.

    Args:
        takeover_due: who waits for it takes over all that are ours and not in memory.
    """

    def __init__(self, takeover_due: asyncio.Event) -> None:
        self._takeover_due = takeover_due
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """Have a group taken over that was lost, with others that are meanwhile."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(TAKE_AGAIN_AFTER_S, self._is_due)

    def close(self) -> None:
        """Have none taken over any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _is_due(self) -> None:
        self._timer = None
        self._takeover_due.set()
