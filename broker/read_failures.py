"""Records that are in the log and cannot be read: counted, and told in the log once in a while.

A client that meets them asks again, for ever. What stands in its way is lost or damaged, which only
an operator can mend, or the object store is away, which passes.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

import structlog
from prometheus_client import CollectorRegistry, Counter

from protocol.errors import ProtocolError
from protocol.ids import Partition
from storage.errors import CorruptObject, ObjectMissing, ObjectStoreUnavailable, ObjectUnreadable
from storage.partition_log import PartitionLog

AGAIN_S: Final = 10.0
MOST_LINES: Final = 100
"""In AGAIN_S; so many partitions are remembered."""

_UNAVAILABLE: Final = "unavailable"
_REASONS: Final[dict[str, tuple[type[Exception], ...]]] = {
    "missing": (ObjectMissing,),
    "damaged": (CorruptObject, ProtocolError),
    "refused": (ObjectUnreadable,),
    _UNAVAILABLE: (ObjectStoreUnavailable,),
}

log = structlog.get_logger()


class ReadFailures:
    """What this broker's clients could not be given.

    Args:
        name_of: tells the name of a topic.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        name_of: Callable[[UUID], str],
        clock: Callable[[], float],
    ) -> None:
        self._counter = Counter(
            "streamhouse_unreadable_reads",
            "Reads of a partition whose records could not be got.",
            ("reason",),
            registry=registry,
        )
        for reason in _REASONS:
            self._counter.labels(reason)  # 0 is told of, too
        self._name_of = name_of
        self._clock = clock
        self._told_s: dict[Partition | None, float] = {}  # in the order of the times

    def note(self, partition_log: PartitionLog, error: Exception, **where: int) -> None:
        """Take note of why a read failed, if the store or what is in it is the reason.

        Args:
            partition_log: what was read.
            error: any condition.
            where: what was looked for, by a name for the log.
        """
        reason = _reason_of(error)
        if reason is None:
            return
        self._counter.labels(reason).inc()
        passes = reason == _UNAVAILABLE  # and it is away for all partitions
        if not self._may_tell(None if passes else partition_log.partition):
            return
        tell = log.warning if passes else log.error
        tell(
            "the object store cannot be read" if passes else "stored records cannot be read",
            topic=self._name_of(partition_log.partition.topic_id),
            partition=partition_log.partition.index,
            **where,
            reason=str(error),
        )

    def _may_tell(self, partition: Partition | None) -> bool:
        """Whether it is time for a line about a partition, or None for all; that is noted."""
        now_s = self._clock()
        while self._told_s:
            oldest = next(iter(self._told_s))
            if now_s - self._told_s[oldest] < AGAIN_S:
                break
            del self._told_s[oldest]
        if partition in self._told_s or len(self._told_s) >= MOST_LINES:
            return False
        self._told_s[partition] = now_s
        return True


def _reason_of(error: Exception) -> str | None:
    return next((reason for reason, kinds in _REASONS.items() if isinstance(error, kinds)), None)
