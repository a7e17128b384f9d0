"""The end of the log in memory: what this broker committed last, for consumers that keep up (D8).

Batches are the very bytes that the producers sent, still in the frames they came in; the oldest
commits of any partition are forgotten first once `tail_bytes` are held.
"""

from bisect import bisect_right
from collections import deque
from typing import Final

BATCH_OVERHEAD_BYTES: Final = (
    400  # the objects around one batch, so that tiny batches count as well
)
_COMPACT_AT: Final = 32
_FORGOTTEN: Final = memoryview(b"")


class PartitionTail:
    """The last batches of one partition, dense in offsets from `start_offset` on."""

    __slots__ = ("_base_offsets", "_batches", "_first", "end_offset")

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._batches: list[memoryview] = []
        self._first = 0  # entries before it are forgotten
        self.end_offset = -1

    @property
    def start_offset(self) -> int:
        """First offset held; end_offset if none is."""
        if self._first == len(self._base_offsets):
            return self.end_offset
        return self._base_offsets[self._first]

    def append(self, base_offset: int, end_offset: int, batch: memoryview) -> None:
        if base_offset != self.end_offset:  # another broker committed in between: begin anew
            self._base_offsets, self._batches, self._first = [], [], 0
        self._base_offsets.append(base_offset)
        self._batches.append(batch)
        self.end_offset = end_offset

    def forget_first(self) -> None:
        self._batches[self._first] = _FORGOTTEN
        self._first += 1
        if self._first >= _COMPACT_AT and self._first * 2 >= len(self._batches):
            del self._base_offsets[: self._first]
            del self._batches[: self._first]
            self._first = 0

    def read(self, offset: int, max_bytes: int) -> tuple[list[memoryview], int]:
        """Return whole batches from the one holding `offset` on, and their bytes.

        Empty if `offset` is not held. The first batch may exceed `max_bytes` (KIP-74).
        """
        if not self.start_offset <= offset < self.end_offset:
            return [], 0
        first = bisect_right(self._base_offsets, offset, self._first) - 1
        taken, size = [self._batches[first]], len(self._batches[first])
        for position in range(first + 1, len(self._batches)):
            size += len(self._batches[position])
            if size > max_bytes:
                size -= len(self._batches[position])
                break
            taken.append(self._batches[position])
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
        tail.append(base_offset, end_offset, batch)
        cost = len(batch) + BATCH_OVERHEAD_BYTES
        self._order.append((tail, base_offset, cost))
        self.size += cost
        while self.size > self._max_bytes:
            old, first_offset, freed = self._order.popleft()
            self.size -= freed
            if old.start_offset == first_offset and first_offset < old.end_offset:
                old.forget_first()
