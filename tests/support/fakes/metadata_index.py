"""The rows of one partition's index, in memory."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from storage.metadata.port import SegmentLookup
from storage.segment_entry import SegmentEntry

MAX_ROWS_PER_LOOKUP: Final = 100


@dataclass(slots=True)
class MemoryIndex:
    """Rows in offset order, adjacent in offsets.

    Attributes:
        written_ms: when each of `rows` came to be.
    """

    rows: list[SegmentEntry] = field(default_factory=list)
    written_ms: list[int] = field(default_factory=list)

    def append(self, entry: SegmentEntry, now_ms: int) -> None:
        """Add a run at the end, or to the last run if it goes on where that ended."""
        last = self.rows[-1] if self.rows else None
        adjacent = last is not None and last.start + last.length == entry.start
        if last is not None and adjacent and last.path == entry.path:
            self.rows[-1] = replace(
                last,
                end_offset=entry.end_offset,
                length=last.length + entry.length,
                max_timestamp_ms=max(last.max_timestamp_ms, entry.max_timestamp_ms),
            )
        else:
            self.rows.append(entry)
            self.written_ms.append(now_ms)

    def find(self, lookup: SegmentLookup) -> list[SegmentEntry]:
        found: list[SegmentEntry] = []
        length = 0
        for entry in self.rows_from(lookup.offset)[:MAX_ROWS_PER_LOOKUP]:
            found.append(entry)
            length += entry.length
            if length >= lookup.max_bytes:
                break
        return found

    def rows_from(self, offset: int) -> list[SegmentEntry]:
        """Return the rows that end at an offset or later."""
        return self.rows[self._position(offset) :]

    def rows_between(self, start_offset: int, end_offset: int) -> list[SegmentEntry]:
        """Return the rows that end in [start_offset, end_offset)."""
        return self.rows[self._position(start_offset) : self._position(end_offset)]

    def oldest_ms(self, offset: int, limit: int) -> int:
        """Return when the oldest of the first `limit` rows from an offset on was written."""
        first = self._position(offset)
        return min(self.written_ms[first : first + limit])

    def swap(self, replaced: Sequence[SegmentEntry], entry: SegmentEntry, now_ms: int) -> bool:
        """Put one row in the place of others; False if they are not there as they were read."""
        first = self._position(replaced[0].end_offset)
        last = first + len(replaced)
        if self.rows[first:last] != list(replaced):
            return False
        self.rows[first:last] = [entry]
        self.written_ms[first:last] = [now_ms]
        return True

    def remove_before(self, offset: int, limit: int) -> list[SegmentEntry]:
        """Remove and return at most `limit` rows that end before an offset."""
        count = min(self._position(offset), limit)
        removed = self.rows[:count]
        del self.rows[:count]
        del self.written_ms[:count]
        return removed

    def count_last(self, path: str) -> int:
        """Return how many rows at the end are of one object."""
        count = 0
        for entry in reversed(self.rows):
            if entry.path != path:
                break
            count += 1
        return count

    def _position(self, offset: int) -> int:
        return bisect_left(self.rows, offset, key=lambda row: row.end_offset)
