"""Work that nobody waits for keeps still while its machine has no processor to spare, for a while.

The scheduler decides who runs next (broker/upkeep/giving_way.py). What runs beside a broker costs
it all the same: half of a core that two threads share, caches, the time of memory and disk. What
producers write in a burst can as well be built in the pause after it. So upkeep waits here before
each request to the store while less than SPARE of a processor is idle, itself left out.

Not for ever: it has patience for `upkeep.patience_ms`, which comes back a quarter as fast as it
goes. Under a load without pauses it therefore works four fifths of the time after the first minute.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from storage.objects.port import Buffer, ObjectStore, Owned, StoredObject

SPARE: Final = 0.75
COMES_BACK: Final = 0.25
LOOK_S: Final = 0.1
"""Between two looks: the kernel counts in ticks of a hundredth."""

_PROCESSORS: Final = os.cpu_count() or 1
_STAT: Final = Path("/proc/stat")


def idle_s() -> float:
    """Return for how long processors were idle, since some moment; all of them, if nobody knows."""
    try:
        total, _ = _STAT.read_text().split("\n", 1)
    except OSError:  # Linux alone has it
        return time.monotonic() * _PROCESSORS
    idle, waiting_for_disks = total.split()[4:6]
    return (int(idle) + int(waiting_for_disks)) / os.sysconf("SC_CLK_TCK")


class SpareProcessors:
    """Tells when to work.

    Args:
        patience_s: that it has at most.
        idle_s: see above.
        own_s: for how long this process was at work.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        patience_s: float,
        *,
        processors: int = _PROCESSORS,
        idle_s: Callable[[], float] = idle_s,
        own_s: Callable[[], float] = time.process_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_patience_s = self._patience_s = patience_s
        self._needed = min(SPARE, processors * SPARE / 2)
        self._idle_s, self._own_s, self._clock = idle_s, own_s, clock
        self._looked_s, self._unused_s = clock(), idle_s() + own_s()
        self._may_work = True

    async def wait(self) -> None:
        """Return when there is something to spare, or patience is at its end."""
        while not self.may_work():  # noqa: ASYNC110 (the kernel does not tell when)
            await asyncio.sleep(LOOK_S)

    def may_work(self) -> bool:
        """Return whether now is the time."""
        now_s = self._clock()
        passed_s = now_s - self._looked_s
        if passed_s < LOOK_S:
            return self._may_work
        gained_s = passed_s * COMES_BACK if self._may_work else -passed_s
        self._patience_s = min(self._patience_s + gained_s, self._most_patience_s)
        unused_s = self._idle_s() + self._own_s()
        has_spare = unused_s - self._unused_s >= self._needed * passed_s
        self._may_work = has_spare or self._patience_s <= 0
        self._looked_s, self._unused_s = now_s, unused_s
        return self._may_work


class UnhurriedStore:
    """Passes everything on to `objects`, what moves records when there is a processor for it."""

    def __init__(self, objects: ObjectStore, spare: SpareProcessors) -> None:
        self._objects = objects
        self._spare = spare

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        await self._spare.wait()
        await self._objects.put(path, parts)

    async def get(self, path: str, start: int, length: int) -> Owned:
        await self._spare.wait()
        return await self._objects.get(path, start, length)

    async def delete(self, paths: Sequence[str]) -> Mapping[str, str]:
        return await self._objects.delete(paths)

    def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        return self._objects.list(prefix)

    async def close(self) -> None:
        await self._objects.close()
