"""What this broker knows of one partition; Postgres is the truth, this is never ahead of it."""

from typing import Protocol

from protocol.ids import Partition
from storage.metadata import PartitionOffsets
from storage.tail import PartitionTail

UNKNOWN = -1
POLLS_AFTER_FETCH = 10


class Waiter(Protocol):
    """Someone who waits for a partition to grow (a long poll)."""

    def grown(self, size: int) -> None:
        """Take note of `size` more bytes; 0: how many is not known, so look again."""


class PartitionLog:
    """One partition as seen from here.

    Attributes:
        high_watermark: one past the last record known to be committed; UNKNOWN until first needed.
            Other brokers may have committed more.
        buffered_records: in this broker's write buffer; LEO is high_watermark + buffered_records.
        removed: the topic was deleted; nothing is appended or read any more.
    """

    __slots__ = (
        "_polls_left",
        "_waiters",
        "buffered_records",
        "high_watermark",
        "log_start_offset",
        "partition",
        "removed",
        "tail",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.high_watermark = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.buffered_records = 0
        self.removed = False
        self.tail = PartitionTail()
        self._waiters: set[Waiter] = set()
        self._polls_left = 0

    @property
    def log_end_offset(self) -> int:
        return max(self.high_watermark, 0) + self.buffered_records

    @property
    def is_known(self) -> bool:
        return self.high_watermark != UNKNOWN

    def take_poll(self) -> bool:
        """Return whether other brokers' commits are of interest: someone waits, or did just now.

        A client that never waits (max_wait 0) but asks again and again sees them only this way.
        """
        if not self._waiters:
            if self._polls_left == 0:
                return False
            self._polls_left -= 1
        return True

    def add_waiter(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)
        self._polls_left = POLLS_AFTER_FETCH

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def advance(self, high_watermark: int, log_start_offset: int, size: int) -> None:
        """Take note of a commit; neither offset ever moves back."""
        self.log_start_offset = max(self.log_start_offset, log_start_offset)
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            for waiter in tuple(self._waiters):
                waiter.grown(size)

    def refresh(self, offsets: PartitionOffsets) -> None:
        """Take note of what Postgres says now."""
        self.advance(offsets.high_watermark, offsets.log_start_offset, size=0)

    def wake(self) -> None:
        """Make all who wait look again."""
        for waiter in tuple(self._waiters):
            waiter.grown(0)

    def remove(self) -> None:
        self.removed = True
        self.wake()
