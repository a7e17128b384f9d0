"""The end of the log in memory: what this broker committed last, for consumers that keep up (D8).

Batches are the very bytes that the producers sent, still in the frames they came in, if they are at
least half of those; the oldest commits of any partition are forgotten first once `tail_bytes` are
held. Other brokers commit, too:
the markers of transactions that they end. Where they did, a tail has a gap, which is read from the
store until somebody fills it.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from typing import Final

BATCH_OVERHEAD_BYTES: Final = (
    400  # the objects around one batch, so that tiny batches count as well
)
MAX_GAP: Final = 64
"""Offsets that others may have taken in one go; beyond, a tail is of no use to who comes before."""

_COMPACT_AT: Final = 32
_FORGOTTEN: Final = memoryview(b"")
_GAP: Final = memoryview(b"")


class PartitionTail:
    """The last batches of one partition, from `start_offset` on, with gaps of MAX_GAP at most."""

    __slots__ = ("_base_offsets", "_batches", "_first", "end_offset")

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._batches: list[memoryview] = []  # a gap has an empty one, and a batch behind it
        self._first = 0  # entries before it are forgotten
        self.end_offset = -1

    @property
    def start_offset(self) -> int:
        """First offset held; end_offset if none is."""
        if self._first == len(self._base_offsets):
            return self.end_offset
        return self._base_offsets[self._first]

    def append(self, base_offset: int, end_offset: int, batch: memoryview) -> None:
        if base_offset != self.end_offset:  # another broker committed in between
            if 0 < base_offset - self.end_offset <= MAX_GAP and self._first < len(self._batches):
                self._base_offsets.append(self.end_offset)
                self._batches.append(_GAP)
            else:  # begin anew
                self._base_offsets, self._batches, self._first = [], [], 0
        self._base_offsets.append(base_offset)
        self._batches.append(batch)
        self.end_offset = end_offset

    def insert(self, base_offset: int, end_offset: int, batch: memoryview) -> bool:
        """Take another broker's batch if it goes on where what is held ends; whether it did."""
        if base_offset == self.end_offset:
            self.append(base_offset, end_offset, batch)
            return True
        gap_end = self.gap_end(base_offset)
        at = bisect_left(self._base_offsets, base_offset, self._first)
        if gap_end is None or end_offset > gap_end or self._base_offsets[at] != base_offset:
            return False
        self._batches[at] = batch
        if end_offset < gap_end:
            self._base_offsets.insert(at + 1, end_offset)
            self._batches.insert(at + 1, _GAP)
        return True

    def gap_end(self, offset: int) -> int | None:
        """Return where the gap ends in which `offset` lies; None if it lies in none."""
        first, base_offsets = self._first, self._base_offsets
        if offset >= self.end_offset or first == len(base_offsets) or offset < base_offsets[first]:
            return None
        at = bisect_right(self._base_offsets, offset, self._first) - 1
        return None if self._batches[at] else self._base_offsets[at + 1]

    def forget_through(self, base_offset: int) -> None:
        """Drop the batches up to the one that begins at `base_offset`."""
        while self._first < len(self._batches) and self._base_offsets[self._first] <= base_offset:
            self._batches[self._first] = _FORGOTTEN
            self._first += 1
        if self._first >= _COMPACT_AT and self._first * 2 >= len(self._batches):
            del self._base_offsets[: self._first]
            del self._batches[: self._first]
            self._first = 0

    def read(self, offset: int, max_bytes: int, end_offset: int) -> tuple[list[memoryview], int]:
        """Return whole batches from the one holding `offset` on, and their bytes.

        Empty if `offset` is not held. The first batch may exceed `max_bytes` (KIP-74). A batch that
        begins at `end_offset` is not wanted any more.
        """
        first, base_offsets = self._first, self._base_offsets
        if offset >= self.end_offset or first == len(base_offsets) or offset < base_offsets[first]:
            return [], 0  # as every read of old records is
        if offset >= end_offset:
            return [], 0
        first = bisect_right(base_offsets, offset, first) - 1
        last = len(self._batches)
        if end_offset < self.end_offset:
            last = bisect_left(self._base_offsets, end_offset, first)
        taken: list[memoryview] = []
        size = 0
        for position in range(first, last):
            batch = self._batches[position]
            if not batch or (taken and size + len(batch) > max_bytes):
                break
            taken.append(batch)
            size += len(batch)
        return taken, size


class TailCache:
    """All partitions' tails under one limit of bytes, first in, first out."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._order: deque[tuple[PartitionTail, int, int]] = deque()  # tail, base offset, bytes
        self.size = 0

    def append(
        self, tail: PartitionTail, base_offset: int, end_offset: int, batch: memoryview
    ) -> None:
        if 2 * len(batch) < len(batch.obj):  # type: ignore[arg-type] # a bytearray, or bytes
            batch = memoryview(bytes(batch))  # it would hold on to a frame of whatever else
        tail.append(base_offset, end_offset, batch)
        self._count(tail, base_offset, batch)

    def insert(
        self, tail: PartitionTail, base_offset: int, end_offset: int, batch: memoryview
    ) -> bool:
        """Take another broker's batch if it goes on where what is held ends; whether it did."""
        taken = tail.insert(base_offset, end_offset, batch)
        if taken:
            self._count(tail, base_offset, batch)
        return taken

    def _count(self, tail: PartitionTail, base_offset: int, batch: memoryview) -> None:
        cost = len(batch) + BATCH_OVERHEAD_BYTES
        self._order.append((tail, base_offset, cost))
        self.size += cost
        while self.size > self._max_bytes:
            old, first_offset, freed = self._order.popleft()
            self.size -= freed
            old.forget_through(first_offset)
