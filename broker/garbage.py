"""When cycles of references are looked for: by the clock, not by how much was allocated.

Requests leave none behind (tests/support/garbage.py), so a collection finds next to nothing, and
takes time for each object that is still needed. Counted in allocations, as Python does it, what is
under way was looked through hundreds of times a second: at 7,000 Produce a second that took a tenth
of the event loop's time. By the clock it is one in a hundred, for what lives less than YOUNG_S is
looked at once at most; and passes are short all the same, but for bursts.

What has survived two collections is looked through when it has grown by a quarter, once a minute at
most: it takes 0.4 microseconds for each object, and a connection is 70 of them.
"""

import asyncio
import gc
from typing import Final

YOUNG_S: Final = 1.0
MIDDLE_EVERY: Final = 4
OLD_EVERY: Final = 60
"""Rounds of YOUNG_S: a minute."""

BURST: Final = 30_000
"""So many new objects within YOUNG_S are looked through at once, in 10 to 20 ms."""

FEW: Final = 1_000
GROWN: Final = 1.25


def settle_garbage_collector() -> None:
    """Take what lives as long as the process out of all collections, and leave only bursts to it.

    A full collection over all modules takes tens of milliseconds, which every request then waits.
    There is none before, either, with the first client waiting: imports leave a thousand objects.
    """
    gc.freeze()
    gc.set_threshold(BURST, MIDDLE_EVERY, OLD_EVERY)


class GarbageRounds:
    """Decides what is looked through in each round."""

    def __init__(self) -> None:
        self._rounds = 0
        self._old = 0

    def collect(self) -> int | None:
        """Do the next round's collection; return its generation, None if there was none."""
        self._rounds += 1
        if self._rounds % OLD_EVERY == 0:
            if len(gc.get_objects(generation=2)) <= self._old * GROWN + FEW:
                return None
            gc.collect()
            self._old = len(gc.get_objects(generation=2))
            return 2
        if self._rounds % MIDDLE_EVERY == 0:
            gc.collect(1)
            return 1
        if gc.get_count()[0] < FEW:
            return None
        gc.collect(0)
        return 0


async def collect_garbage() -> None:
    """Do it for ever."""
    rounds = GarbageRounds()
    while True:
        await asyncio.sleep(YOUNG_S)
        rounds.collect()
