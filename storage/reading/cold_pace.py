"""Cold reads give way while the event loop has much to do.

What the broker does for producers and for consumers at the end of the log is many short steps, and
each turn of the loop takes all that are due. A backfill asks for more as soon as it has an answer;
it would have its megabytes prepared and sent in every turn. So before it gets any, turns must be
short, or it waits some of them out: never for long, so that it goes on however busy the broker is.
"""

import asyncio
from collections.abc import Callable
from typing import Final

LONG_TURN_S: Final = 0.002
SHARE: Final = 2.0  # turns that are waited out, for each long one that was seen
MOST_WAIT_S: Final = 0.02
ROUNDS: Final = 4


class ColdPace:
    """Asked before each cold read."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    async def give_way(self) -> None:
        """Return at once if the loop has little to do, else a little later."""
        for _ in range(ROUNDS):
            began_s = self._clock()
            await asyncio.sleep(0)
            turn_s = self._clock() - began_s
            if turn_s < LONG_TURN_S:
                return
            await asyncio.sleep(min(turn_s * SHARE, MOST_WAIT_S))
