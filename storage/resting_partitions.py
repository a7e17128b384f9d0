"""Partitions that cannot be worked on: said once, and left alone for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from protocol.ids import Partition
from storage.errors import MetadataUnavailable, ObjectStoreUnavailable
from storage.segment_layout import UnreadableRow

REST_S: Final = 10 * 60.0
_NOWHERE: Final = -1

log = structlog.get_logger()


class FailureCounts(Protocol):
    """What builder and compaction count of them.

    Attributes:
        unreadable: given up because bytes are damaged or missing.
        failed: given up because of a bug.
    """

    unreadable: int
    failed: int


@dataclass(frozen=True, slots=True)
class _Known:
    """Where a partition cannot be read, and until when nobody tries."""

    offset: int
    until_s: float


class RestingPartitions:
    """What one process has come across.

    Args:
        counts: is added to.
        clock: monotonic, in seconds.
    """

    def __init__(self, counts: FailureCounts, clock: Callable[[], float]) -> None:
        self._counts = counts
        self._clock = clock
        self._known: dict[Partition, _Known] = {}

    def note_unreadable(self, partition: Partition, topic: str, failure: UnreadableRow) -> None:
        """Let the partition rest; log it unless the same was found there before."""
        self._counts.unreadable += 1
        offset = failure.entry.start_offset
        known = self._known.get(partition)
        if known is None or known.offset != offset:
            log.error(
                "stored records cannot be read",
                topic=topic,
                partition=partition.index,
                offset=offset,
                reason=str(failure),
            )
        self._rest(partition, offset)

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
            self._rest(partition, _NOWHERE)

    def rests(self, partition: Partition) -> bool:
        """Return whether it is not worth a try."""
        known = self._known.get(partition)
        return known is not None and self._clock() < known.until_s

    def keep(self, exists: Callable[[Partition], bool]) -> None:
        """Forget the others."""
        self._known = {each: known for each, known in self._known.items() if exists(each)}

    def _rest(self, partition: Partition, offset: int) -> None:
        self._known[partition] = _Known(offset, self._clock() + REST_S)
