"""The metadata port's progress: how far each log has come, and each group in it.

Contract, checked for Postgres and for the in-memory fake by tests/contracts/test_progress.py:
- One statement answers for the whole cluster, at one moment.
- The order is that of names and partitions, by code points, so a limit always leaves out the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress:
    """Where the partitions of a topic begin and end; the sequences have the same length.

    Attributes:
        partitions: their numbers, ascending.
    """

    topic: str
    partitions: Sequence[int]
    log_start_offsets: Sequence[int]
    high_watermarks: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress:
    """How far a group has come in a topic; the sequences have the same length.

    Attributes:
        partitions: for which it has committed an offset, ascending.
        lags: records from the committed offset, or the log start offset if that is behind it, to
            the high watermark; also those that compaction has removed count.
        unread_since_ms: when the oldest record was produced that was not read: the largest
            timestamp of the run of the index that holds it. So it is never too early, and too late
            by the time that a run spans: milliseconds as long as it is not built into a segment,
            then that of the segment at most. NO_TIMESTAMP where there is no such record, or its
            run has no timestamp.
    """

    group_id: str
    topic: str
    partitions: Sequence[int]
    committed_offsets: Sequence[int]
    lags: Sequence[int]
    unread_since_ms: Sequence[int]


class ProgressStore(Protocol):
    """Part of MetadataStore; see the module's docstring for what every implementation promises.

    Both calls may take long, and raise MetadataUnavailable when Postgres gives no answer in time.
    """

    async def topic_progress(self, limit: int) -> list[TopicProgress]:
        """Return the first `limit` partitions, by topic."""

    async def group_progress(self, limit: int) -> list[GroupProgress]:
        """Return the first `limit` committed offsets, by group and topic."""
