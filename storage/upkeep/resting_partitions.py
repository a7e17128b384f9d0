"""Partitions that cannot be worked on: said once, and left alone for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import structlog

from protocol.ids import Partition
from storage.errors import MetadataUnavailable, ObjectStoreUnavailable
from storage.segment_entry import SegmentEntry
from storage.upkeep.segment_layout import UnreadableRow

REST_S: Final = 10 * 60.0

log = structlog.get_logger()


class FailureCounts(Protocol):
    """What builder and compaction count of them.

    Attributes:
        unreadable: how often bytes were met that are damaged or missing.
        failed: how often work was given up because of a bug.
    """

    unreadable: int
    failed: int


class RestingPartitions:
    """What one process has come across.

    Args:
        counts: is added to.
        clock: monotonic, in seconds.
    """

    def __init__(self, counts: FailureCounts, clock: Callable[[], float]) -> None:
        self._counts = counts
        self._clock = clock
        self._unreadable: dict[Partition, SegmentEntry] = {}  # the last row of each that was so
        self._until_s: dict[Partition, float] = {}

    def note_unreadable(self, partition: Partition, topic: str, failure: UnreadableRow) -> None:
        """Count it; log it unless the same was found there before."""
        self._counts.unreadable += 1
        offset = failure.entry.start_offset
        known = self.unreadable(partition)
        if known is None or known.start_offset != offset:
            log.error(
                "stored records cannot be read",
                topic=topic,
                partition=partition.index,
                offset=offset,
                reason=str(failure),
            )
        self._unreadable[partition] = failure.entry

    def unreadable(self, partition: Partition) -> SegmentEntry | None:
        """Return the row that could not be read when the partition was last worked on."""
        return self._unreadable.get(partition)

    def note_readable(self, partition: Partition) -> None:
        """Forget that row."""
        self._unreadable.pop(partition, None)

    def rest(self, partition: Partition) -> None:
        """Let nobody try it for a while."""
        self._until_s[partition] = self._clock() + REST_S

    @contextmanager
    def at_the_cost_of(self, partition: Partition) -> Iterator[None]:
        """Let the partition rest if what is done here fails, and the work on all others go on.

        Raises:
            MetadataUnavailable, ObjectStoreUnavailable: no answer; that is no fault of its.
        """
        try:
            yield
        except (MetadataUnavailable, ObjectStoreUnavailable):
            raise
        except Exception:  # of one partition's data: whoever had the task next would end, too
            self._counts.failed += 1
            log.exception(
                "bug in the work on a partition; leaving it alone for a while",
                topic_id=str(partition.topic_id),
                partition=partition.index,
            )
            self.rest(partition)

    def rests(self, partition: Partition) -> bool:
        """Return whether it is not worth a try."""
        until_s = self._until_s.get(partition)
        return until_s is not None and self._clock() < until_s

    def keep(self, exists: Callable[[Partition], bool]) -> None:
        """Forget the others."""
        self._unreadable = {each: row for each, row in self._unreadable.items() if exists(each)}
        self._until_s = {each: until_s for each, until_s in self._until_s.items() if exists(each)}
