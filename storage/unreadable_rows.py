"""Partitions whose stored bytes are damaged or missing: said once, and left alone for a while."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from protocol.ids import Partition
from storage.segment_layout import UnreadableRow

REST_S: Final = 10 * 60.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Known:
    """Where a partition cannot be read, and until when nobody tries."""

    offset: int
    until_s: float


class UnreadableRows:
    """What one process has come across."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[Partition, _Known] = {}

    def note(self, partition: Partition, topic: str, failure: UnreadableRow) -> None:
        """Let the partition rest; log it unless the same was found there before."""
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
        self._known[partition] = _Known(offset, self._clock() + REST_S)

    def rests(self, partition: Partition) -> bool:
        """Return whether it is not worth a try."""
        known = self._known.get(partition)
        return known is not None and self._clock() < known.until_s

    def keep(self, exists: Callable[[Partition], bool]) -> None:
        """Forget the others."""
        self._known = {each: known for each, known in self._known.items() if exists(each)}
