"""Names of objects: never derived from offsets or from anything that a client sent."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from storage.backoff import Backoff
from storage.config import RESERVED_LIFETIME_S
from storage.errors import MetadataUnavailable
from storage.metadata.port import MetadataStore

RESERVE_COUNT: Final = 64
_REFILL_BELOW: Final = 32

# Seconds since some moment, those in which the machine was asleep among them, where there is such a
# clock. It is no function of ours: each object asks it.
_boot_time_s: Final = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)

log = structlog.get_logger()


def uuid7(now_ms: int, random_bytes: bytes) -> UUID:
    """Return a time-ordered UUID (RFC 9562, version 7) from 10 random bytes."""
    value = (now_ms & (1 << 48) - 1) << 80 | int.from_bytes(random_bytes)
    value = value & ~(0xF << 76) | 7 << 76
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


def wal_path(object_id: UUID) -> str:
    """Return the path of a mixed object; two hash digits in front spread S3's rate limits."""
    text = str(object_id)
    return f"wal/{text[-2:]}/{text}"


class ReservedPaths:
    """Paths registered as pending in Postgres before anything is stored there (D5).

    They are reserved in blocks ahead of need, so that no producer waits for it. What is left at a
    crash, or was not needed for RESERVED_LIFETIME_S, are rows without an object; the sweeper takes
    them away.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        new_id: Callable[[], UUID],
        clock: Callable[[], float] = _boot_time_s,
    ) -> None:
        self._metadata = metadata
        self._new_id = new_id
        self._clock = clock
        self._free: deque[tuple[str, float]] = deque()  # and when it was reserved at the earliest
        self._refill: asyncio.Task[None] | None = None

    async def take(self) -> str:
        """Return a path that nobody else was or will be given; waits while Postgres is away."""
        while True:
            oldest_s = self._clock() - RESERVED_LIFETIME_S
            while self._free and self._free[0][1] < oldest_s:
                self._free.popleft()
            if len(self._free) < _REFILL_BELOW and (self._refill is None or self._refill.done()):
                self._refill = asyncio.create_task(self._reserve())
            if self._free:
                return self._free.popleft()[0]
            assert self._refill is not None
            await asyncio.shield(self._refill)

    async def close(self) -> None:
        if self._refill is not None:
            self._refill.cancel()
            await asyncio.wait([self._refill])

    async def _reserve(self) -> None:
        paths = [wal_path(self._new_id()) for _ in range(RESERVE_COUNT)]
        began_s = self._clock()  # the first try may have reserved them, with its answer lost
        backoff = Backoff()
        while True:
            try:
                await self._metadata.reserve_objects(paths)
            except MetadataUnavailable as error:
                log.warning("reserving paths again", reason=str(error))
                await backoff.wait()
            else:
                self._free.extend((path, began_s) for path in paths)
                return
