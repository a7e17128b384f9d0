"""What writers tell of batches that are in no object any more; pure.

Retention may have emptied a log, or an object may be lost: that their offsets were given is known
all the same, and nothing else may get them.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from protocol.control_batch import EndMarker
from storage.recovery.recover_order import Places
from storage.recovery.recover_scratch import FoundBatch, FoundSegment
from storage.wal_index import NOT_APPENDED

COUNT_MARGIN: Final = 1_000_000
"""Of a batch that is gone nobody knows how many records it had: hardly so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The batches of a partition that writers tell of, and nobody has.

    Attributes:
        offsets: base offsets of those whose objects are gone, ascending.
        all_offsets: also those of objects that can be read in part, which have some of them.
        end_offset: one past the last base offset, also of objects that can be read in part; 0 if
            there is none.
    """

    offsets: Sequence[int] = ()
    all_offsets: Sequence[int] = ()
    end_offset: int = 0

    @property
    def safe_offset(self) -> int:
        """Return the first offset that none of their records had; 0 if there are none."""
        return self.end_offset + COUNT_MARGIN if self.end_offset else 0

    def free_before(self, offset: int, end_offset: int) -> int:
        """Return how many offsets there are from one to another before the first of them."""
        at = bisect_left(self.all_offsets, offset)
        return min([end_offset, *self.all_offsets[at : at + 1]]) - offset

    def end_of_empty(self, endings: Mapping[int, EndMarker]) -> int:
        """Return where a log ends of which nothing else is there than ends of transactions.

        Args:
            endings: by the offsets of their markers, ascending.
        """
        told = max(endings, default=-1) + 1
        return told if told >= self.end_offset else self.safe_offset


NONE_GONE: Final = Gone()


def gone_of(found: Iterable[FoundBatch], places: Places) -> Gone:
    """Return what is told of batches that are not among those that were found.

    Args:
        found: all of the partition.
        places: base offsets of an object's batches, by its writer and sequence.
    """
    counts = Counter((one.writer, one.sequence) for one in found)
    offsets: list[int] = []
    all_offsets: list[int] = []
    for key, base_offsets in places.items():
        appended = [offset for offset in base_offsets if offset != NOT_APPENDED]
        if counts[key] == len(base_offsets) or not appended:
            continue
        all_offsets += appended
        if not counts[key]:
            offsets += appended
    end_offset = max(all_offsets, default=-1) + 1
    return Gone(offsets=sorted(offsets), all_offsets=sorted(all_offsets), end_offset=end_offset)


def end_of_segments(segments: Iterable[FoundSegment]) -> int:
    """Return where the last one ends, whether it was chosen or not; 0 if there is none."""
    return max((one.end_offset + 1 for one in segments), default=0)
