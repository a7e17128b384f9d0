"""Retention: what is past its time or its share of bytes leaves the log (D6).

One pass looks at every partition of every topic. A page of partitions is one statement, whatever
they hold. First log start offsets move, so that nobody is given such records any more; then
`purge` removes what lies before them, from deleted topics, too. Bytes go with the sweeper.

Times are 64-bit milliseconds, UNLIMITED (-1) is for ever and 0 keeps nothing that is older than
now: `retention.ms=2592000000` (30 days) is a number like any other.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Final
from uuid import UUID

from protocol.ids import Partition
from storage.metadata.segments import ProducerKey, RetentionRequest, SegmentStore
from storage.upkeep.policies import UNLIMITED, TopicPolicy

PARTITIONS_PER_PAGE: Final = 500
ROWS_PER_PURGE: Final = 1000
PRODUCERS_PER_PAGE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPass:
    """What one pass has done.

    Attributes:
        partitions: whose log start offset has moved.
        rows: of the index, that are gone.
        producers: states that are forgotten.
    """

    partitions: int
    rows: int
    producers: int


class Retention:
    """One pass at a time, from the beginning; what it does twice changes nothing.

    Args:
        policies: returns those of all topics, as they are now. Each page asks anew: a pass takes
            its time, and who is told meanwhile that records are kept longer relies on it.
        producer_unused_ms: returns for how long a producer's state in a partition is kept after
            its last batch (producer.id.expiration.ms), as it is now.
    """

    def __init__(
        self,
        *,
        metadata: SegmentStore,
        policies: Callable[[], Awaitable[Iterable[tuple[UUID, TopicPolicy]]]],
        producer_unused_ms: Callable[[], int],
    ) -> None:
        self._metadata = metadata
        self._policies = policies
        self._producer_unused_ms = producer_unused_ms

    async def run(self) -> RetentionPass:
        """Go over all partitions once.

        Raises:
            MetadataUnavailable: no answer; what is not done yet is done by the next pass.
        """
        return RetentionPass(
            partitions=await self._expire(),
            rows=await self._purge(),
            producers=await self._forget(),
        )

    async def _expire(self) -> int:
        moved = 0
        now_ms = await self._metadata.clock_ms()  # not of this machine: it may be far out
        done: Partition | None = None
        while page := _page(await self._policies(), now_ms, done):
            moved += len(await self._metadata.expire_records(page))
            done = page[-1].partition
        return moved

    async def _purge(self) -> int:
        rows = 0
        while gone := await self._metadata.purge(ROWS_PER_PURGE):
            rows += gone
        return rows

    async def _forget(self) -> int:
        producers, after = await self._forget_page(None)
        while after is not None:
            gone, after = await self._forget_page(after)
            producers += gone
        return producers

    async def _forget_page(self, after: ProducerKey | None) -> tuple[int, ProducerKey | None]:
        return await self._metadata.expire_producers(
            after, self._producer_unused_ms(), PRODUCERS_PER_PAGE
        )


def _page(
    policies: Iterable[tuple[UUID, TopicPolicy]], now_ms: int, done: Partition | None
) -> Sequence[RetentionRequest]:
    """Return what comes after a partition; locks are taken in key order."""
    left = [one for one in policies if done is None or one[0] >= done.topic_id]
    requests = (
        request
        for topic_id, policy in sorted(left, key=itemgetter(0))
        for request in _requests(topic_id, policy, now_ms)
        if done is None or request.partition > done
    )
    return tuple(islice(requests, PARTITIONS_PER_PAGE))


def _requests(topic_id: UUID, policy: TopicPolicy, now_ms: int) -> Iterator[RetentionRequest]:
    """Yield what each partition of a topic has to keep; nothing for one that keeps all."""
    timed = policy.delete and policy.retention_ms != UNLIMITED
    sized = policy.delete and policy.retention_bytes != UNLIMITED
    if not timed and not sized:
        return
    before_ms = now_ms - policy.retention_ms if timed else None
    for index in range(policy.partition_count):
        yield RetentionRequest(
            partition=Partition(topic_id, index),
            before_ms=before_ms,
            keep_bytes=policy.retention_bytes if sized else None,
        )
