"""What this broker knows of one partition; Postgres is the truth, this is never ahead of it."""

from collections.abc import Sequence
from typing import Protocol

from protocol.ids import Partition
from storage.partition_offsets import PartitionOffsets
from storage.tail import PartitionTail

UNKNOWN = -1
POLLS_AFTER_FETCH = 10


class Waiter(Protocol):
    """Someone who waits for a partition to grow (a long poll).

    Attributes:
        read_committed: waits for the last stable offset rather than the high watermark.
        waits: wants to hear of other brokers' commits, too, as long as it is so.
    """

    read_committed: bool

    @property
    def waits(self) -> bool: ...

    def grown(self, size: int) -> None:
        """Take note of `size` more bytes; 0: how many is not known, so look again."""

    def moved(self) -> None:
        """Take note of a high watermark that has moved, with nothing more to read here."""


Places = tuple[int, Sequence[int]]
"""Where the partition's batches of one object of this broker are in the log: the object's sequence,
and the base offset of each batch, storage.wal_index.NOT_APPENDED if it is not there."""


class PartitionLog:
    """One partition as seen from here.

    Args:
        partition: that it is.
        read: partitions of one broker that are read, so that polling costs nothing for the others:
            it is put there when somebody begins, and whoever polls takes it out once `take_poll`
            says no.

    Attributes:
        high_watermark: one past the last record known to be committed; UNKNOWN until first needed.
            Other brokers may have committed more.
        aborted_count: of the snapshot that the last stable offset is of (storage/aborted.py).
        buffered_records: in this broker's write buffer; LEO is high_watermark + buffered_records.
        is_end_known: no broker that led the partition before this one has committed more than
            `high_watermark`, as far as can be known here.
        removed: the topic was deleted; nothing is appended or read any more.
        untold: what no object with batches of the partition tells yet (storage/untold.py).
    """

    __slots__ = (
        "_polls_left",
        "_read",
        "_stable_offset",
        "_waiters",
        "aborted_count",
        "buffered_records",
        "high_watermark",
        "is_end_known",
        "log_start_offset",
        "partition",
        "removed",
        "tail",
        "untold",
    )

    def __init__(self, partition: Partition, read: "set[PartitionLog] | None" = None) -> None:
        self.partition = partition
        self._read: set[PartitionLog] = set() if read is None else read
        self.high_watermark = UNKNOWN
        self.log_start_offset = UNKNOWN
        self._stable_offset = UNKNOWN
        self.aborted_count = 0
        self.buffered_records = 0
        self.is_end_known = False
        self.removed = False
        self.tail = PartitionTail()
        self.untold: tuple[Places, ...] = ()
        self._waiters: set[Waiter] = set()
        self._polls_left = 0

    @property
    def log_end_offset(self) -> int:
        return max(self.high_watermark, 0) + self.buffered_records

    @property
    def offsets(self) -> PartitionOffsets:
        """Return what was last heard of Postgres."""
        return PartitionOffsets(
            self.log_start_offset, self.high_watermark, self._stable_offset, self.aborted_count
        )

    @property
    def last_stable_offset(self) -> int:
        """Before it every transaction has ended; a batch begins there, or the log ends.

        A commit tells where it is once all of its batches are in the log, and they become known
        here one by one: hence the bound.
        """
        return min(self._stable_offset, self.high_watermark)

    @property
    def is_known(self) -> bool:
        return self.high_watermark != UNKNOWN

    def take_poll(self) -> bool:
        """Return whether other brokers' commits are of interest: someone waits, or did just now.

        A client that never waits (max_wait 0) but asks again and again sees them only this way.
        """
        for waiter in self._waiters:
            if waiter.waits:
                return True
        if self._polls_left == 0:
            return False
        self._polls_left -= 1
        return True

    def add_waiter(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)
        self._polls_left = POLLS_AFTER_FETCH
        self._read.add(self)

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def advance(
        self,
        *,
        high_watermark: int,
        log_start_offset: int,
        last_stable_offset: int,
        aborted_count: int,
        size: int,
    ) -> None:
        """Take note of a commit, or of what Postgres says; nothing ever moves back.

        News come out of order, but each is a snapshot of a partition that only ever moves on: the
        last stable offset and the number of aborted transactions never fall from one snapshot to
        the next. So the largest pair is the latest, and a pair is taken whole or not at all: who
        reads up to an offset always knows the count that belongs to it, or a later one.
        """
        old_end = self.high_watermark
        old_stable = self.last_stable_offset if self._waiters else UNKNOWN
        if log_start_offset > self.log_start_offset:
            if self.is_known:
                self.wake()  # who waits before it is told that it is out of range
            self.log_start_offset = log_start_offset
        self.high_watermark = max(old_end, high_watermark)
        self.is_end_known = True
        if last_stable_offset > self._stable_offset or (
            last_stable_offset == self._stable_offset and aborted_count > self.aborted_count
        ):
            self._stable_offset, self.aborted_count = last_stable_offset, aborted_count
        if self._waiters:
            self._tell_waiters(old_end, old_stable, size)

    def leader_changed(self) -> None:
        """Take note that another broker may have led it meanwhile, and committed."""
        self.is_end_known = False

    def refresh(self, offsets: PartitionOffsets) -> None:
        """Take note of what Postgres says now."""
        self.advance(
            high_watermark=offsets.high_watermark,
            log_start_offset=offsets.log_start_offset,
            last_stable_offset=offsets.last_stable_offset,
            aborted_count=offsets.aborted_count,
            size=0,
        )

    def _tell_waiters(self, old_end: int, old_stable: int, size: int) -> None:
        grown = self.high_watermark > old_end
        stable_grown = self.last_stable_offset > old_stable
        # What lay between the two offsets, and how many bytes of it, nobody has counted.
        both = old_stable == old_end and self.last_stable_offset == self.high_watermark
        stable_size = size if both else 0
        for waiter in tuple(self._waiters):
            if waiter.read_committed:
                if stable_grown:
                    waiter.grown(stable_size)
                elif grown:
                    waiter.moved()
            elif grown:
                waiter.grown(size)

    def wake(self) -> None:
        """Make all who wait look again."""
        for waiter in tuple(self._waiters):
            waiter.grown(0)

    def remove(self) -> None:
        self.removed = True
        self._read.discard(self)
        self.wake()
