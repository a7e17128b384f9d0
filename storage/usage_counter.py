"""Counts what topics and clients ask of the object store.

Postgres adds it up (storage/metadata/usage.py).

Who asks is known where the work begins, what it takes only where the store is called; between them
goes a context variable, which tasks inherit from whoever starts them:

    writer: producing(shares of an object)  -> PUT    a share for each batch, by its bytes
    fetch:  charged(topics, client)         -> GETs   an equal share for each partition it asks for
    nobody                                  -> the process itself: (broker), (upkeep)

A reader that waits for a GET of another one is not charged for it. All of this is best effort: what
was counted in the last FLUSH_S is lost in a crash, and counted twice if Postgres took it without an
answer. Nothing that serves clients waits for it.

Limits: MAX_CLIENTS pairs of topic and client an hour and process, and as many topics beyond them,
whose clients are then counted together as OTHER; the rest of the topics, too.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from storage.errors import MetadataUnavailable
from storage.metadata.usage import (
    HOUR_MS,
    NO_TOPIC,
    OTHER,
    UsageCounts,
    UsageRow,
    UsageStore,
    hour_of,
)

FLUSH_S: Final = 30.0
MAX_CLIENTS: Final = 1000
KEEP_MS: Final = 400 * 24 * HOUR_MS
FORGET_ROWS: Final = 10_000  # every hour: more than a process can add in one

Key = tuple[UUID, str]

log = structlog.get_logger()


class Share(NamedTuple):
    """Whose part of a request how large is, in relation to the others'."""

    topic_id: UUID
    client_id: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Whom the store's work is done for. Attributes: produces is whether sizes are of batches."""

    shares: Sequence[Share]
    produces: bool


_cause: ContextVar[Cause | None] = ContextVar("_cause", default=None)


class producing:  # noqa: N801 (in use it is what contextmanager makes, in half of the calls)
    """Charge what is stored inside to those whose batches it has, `size` bytes each."""

    __slots__ = ("_cause", "_token")

    def __init__(self, shares: Sequence[Share]) -> None:
        self._cause = Cause(shares=shares, produces=True)

    def __enter__(self) -> None:
        self._token = _cause.set(self._cause)

    def __exit__(self, *_: object) -> None:
        _cause.reset(self._token)


@contextmanager
def charged(topic_ids: Iterable[UUID], client_id: str) -> Iterator[None]:
    """Charge what is done inside to a client; each topic as often as it is there."""
    counted = Counter(topic_ids).items()
    shares = [Share(topic_id, client_id, count) for topic_id, count in counted]
    token = _cause.set(Cause(shares=shares, produces=False))
    try:
        yield
    finally:
        _cause.reset(token)


def _split(shares: Sequence[Share], size: int) -> Iterable[tuple[Share, float, int]]:
    """Return each share with its part of one request and of `size` bytes; no byte is lost."""
    if len(shares) == 1:
        return ((shares[0], 1.0, size),)
    return _split_among(shares, size)


def _split_among(shares: Sequence[Share], size: int) -> Iterator[tuple[Share, float, int]]:
    total = sum([share.size for share in shares])
    before = taken = 0
    for share in shares:
        before += share.size
        end = size * before // total
        yield share, share.size / total, end - taken
        taken = end


class UsageCounter:
    """What one process counts.

    Args:
        client_id: who is charged for what nobody asked for.
        now_ms: the wall clock; what is written at one time counts for the hour of that time.
    """

    def __init__(self, store: UsageStore, *, client_id: str, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._nobody = Cause(shares=[Share(NO_TOPIC, client_id, 1)], produces=False)
        self._now_ms = now_ms
        self._counts: dict[Key, UsageCounts] = {}
        self._hour_ms = hour_of(now_ms())
        self._known: set[Key] = set()  # of this hour

    def put(self, size: int, *, stored: bool) -> None:
        """Count a PUT of `size` bytes; if not `stored`, something else was there already."""
        cause = _cause.get()
        if cause is None or not cause.shares:
            cause = self._nobody
        for share, part, bytes_of_it in _split(cause.shares, size):
            counts = self._of(share.topic_id, share.client_id)
            counts.puts += part
            counts.put_bytes += bytes_of_it
            if cause.produces and stored:
                counts.produced_bytes += share.size

    def get(self, size: int) -> None:
        """Count a GET that `size` bytes came of."""
        for share, part, bytes_of_it in _split((_cause.get() or self._nobody).shares, size):
            counts = self._of(share.topic_id, share.client_id)
            counts.gets += part
            counts.get_bytes += bytes_of_it

    def listed(self) -> None:
        """Count a LIST of one page."""
        self._of_first().lists += 1

    def deleted(self, objects: int) -> None:
        """Count objects that were deleted."""
        self._of_first().deletes += objects

    def fetched(self, topic_id: UUID, client_id: str, size: int) -> None:
        """Count bytes of batches that a client is sent."""
        self._of(topic_id, client_id).fetched_bytes += size

    async def run(self) -> None:
        """Write what was counted, and forget what is old, until cancelled."""
        forgot_ms = 0
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()
            if self._now_ms() - forgot_ms >= HOUR_MS:
                forgot_ms = self._now_ms()
                await self._forget()

    async def flush(self) -> None:
        """Write what was counted; what Postgres does not take is kept for the next time."""
        rows = self._take()
        if not rows:
            return
        try:
            await self._store.add_usage(rows)
        except MetadataUnavailable as error:
            self._put_back(rows)
            log.warning("usage not written yet", rows=len(rows), reason=str(error))
        except asyncio.CancelledError:
            self._put_back(rows)
            raise

    async def close(self, deadline_s: float) -> None:
        """Write what was counted, if that can be done by the deadline."""
        try:
            async with asyncio.timeout(deadline_s):
                await self.flush()
        except TimeoutError:
            log.warning("usage not written", rows=len(self._counts))

    async def _forget(self) -> None:
        try:
            await self._store.forget_usage(KEEP_MS, FORGET_ROWS)
        except MetadataUnavailable as error:
            log.warning("old usage not forgotten yet", reason=str(error))

    def _take(self) -> list[UsageRow]:
        """Return what was counted, in the order in which all processes lock the rows."""
        hour_ms = hour_of(self._now_ms())
        if hour_ms != self._hour_ms:
            self._hour_ms = hour_ms
            self._known.clear()
        counted, self._counts = self._counts, {}
        return [
            UsageRow(hour_ms=hour_ms, topic_id=topic_id, client_id=client_id, counts=counts)
            for (topic_id, client_id), counts in sorted(counted.items(), key=lambda item: item[0])
        ]

    def _put_back(self, rows: Sequence[UsageRow]) -> None:
        for row in rows:
            self._of(row.topic_id, row.client_id).add(row.counts)

    def _of_first(self) -> UsageCounts:
        share = (_cause.get() or self._nobody).shares[0]
        return self._of(share.topic_id, share.client_id)

    def _of(self, topic_id: UUID, client_id: str) -> UsageCounts:
        key = (topic_id, client_id)
        counts = self._counts.get(key)
        if counts is None:
            key = self._admitted(key)
            counts = self._counts.get(key)
            if counts is None:
                counts = self._counts[key] = UsageCounts()
        return counts

    def _admitted(self, key: Key) -> Key:
        """Return what a pair is counted as."""
        if key in self._known:
            return key
        if len(self._known) >= MAX_CLIENTS:
            key = (key[0], OTHER)
            if key not in self._known and len(self._known) >= 2 * MAX_CLIENTS:
                return (NO_TOPIC, OTHER)
        self._known.add(key)
        return key
