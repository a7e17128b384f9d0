"""The metadata port's upkeep: what builder, retention, compaction and sweeper change (D5, D6).

Contract, checked for Postgres and for the in-memory fake by tests/contracts/test_segments.py:
- `replace_segments` puts one built object in the place of rows that are still exactly as the caller
  read them, in one database transaction, under the partition's lock; else it changes nothing. So
  whatever builds, compacts, retains or deletes at the same time, on whichever broker, the rows of a
  partition go on tiling [log start offset, high watermark), and no offset moves.
- The log start offset moves first; rows before it go later, and objects after their last row.
- An object is taken away by the state of its own row only: pending -> doomed (given up), or
  live -> doomed (no row of the index names it any more). Both happen under the lock of that row.
  Its bytes go `grace` after that, so that a reader who planned before has them; its row goes last.
Ages are by the database's clock. Locks: an object's row that is committed < partitions < objects
that are released, ascending; then as in storage/metadata/transactions.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from protocol.ids import Partition
from storage.segment_entry import SegmentEntry

ProducerKey: TypeAlias = tuple[Partition, int]
"""Of a producer's state in a partition; the number is the producer's id."""

SIZES_TIMEOUT_S: Final = 20.0
"""Less than what stock admin clients wait for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbuiltRange:
    """What lies between the last built segment of a partition and its high watermark.

    Attributes:
        built_offset: where it begins.
        rows: of the index; counting stops at a limit.
        size: bytes of those rows.
        age_ms: of the oldest of them, since it was written.
    """

    partition: Partition
    built_offset: int
    rows: int
    size: int
    age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanableRange:
    """What log compaction finds in the built segments of a partition.

    Attributes:
        log_start_offset: where the log begins.
        compacted_offset: before it, every key has one record (of those that were there then).
        end_offset: up to where compaction may go (exclusive): built, and before the LSO.
        clean_size, dirty_size: bytes before and from `compacted_offset` on.
        dirty_since_ms: when it was compacted last as a whole, or, if that is less, the oldest
            `max_timestamp_ms` of a dirty segment that has one; 0 if it never was.
    """

    partition: Partition
    log_start_offset: int
    compacted_offset: int
    end_offset: int
    clean_size: int
    dirty_size: int
    dirty_since_ms: int

    @property
    def first_dirty_offset(self) -> int:
        """Where the dirty part begins."""
        return max(self.compacted_offset, self.log_start_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSwap:
    """One built object in the place of some rows.

    Attributes:
        path: reserved by `reserve_segment`, and uploaded.
        size: of the whole object, bytes.
        replaced: the rows, as they were read: adjacent, in offset order.
        start, length: byte range of the batches in the object.
        index_length: bytes that follow them up to the end of the object: its index.
        max_timestamp_ms: of the records that are left, but never less than -1.
        compacts: it has not all records of the rows, which readers of snapshots must hear.
    """

    partition: Partition
    path: str
    size: int
    replaced: Sequence[SegmentEntry]
    start: int
    length: int
    index_length: int
    max_timestamp_ms: int
    compacts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRequest:
    """What a partition has to keep.

    Attributes:
        before_ms: rows whose largest timestamp is less are removed; of records without one, it is
            the time when their object was stored. None keeps them.
        keep_bytes: rows are removed while the rest has as much, or more; None keeps them.
    """

    partition: Partition
    before_ms: int | None
    keep_bytes: int | None


class SegmentStore(Protocol):
    """See the module's docstring for what every implementation promises."""

    async def clock_ms(self) -> int:
        """Return the database's clock (Unix time)."""

    async def partition_sizes(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Return how many bytes of batches each log has from its start on.

        A row that the start lies in counts as a whole, as a segment does in Kafka. Partitions that
        do not exist are left out.

        Raises:
            MetadataUnavailable: no answer within SIZES_TIMEOUT_S: every row of them is looked at.
        """

    # what there is to do

    async def unbuilt_ranges(
        self, after: Partition | None, limit: int, max_rows: int
    ) -> tuple[list[UnbuiltRange], Partition | None]:
        """Look at the next `limit` partitions in key order, beginning behind `after`.

        Returns:
            what is not built of those that have something (rows counted up to `max_rows`); and
            where to go on, None at the end.
        """

    async def cleanable_ranges(self, partitions: Sequence[Partition]) -> list[CleanableRange]:
        """Return what compaction finds there; partitions that do not exist are left out."""

    # builder and compaction

    async def segments_from(
        self, partition: Partition, offset: int, limit: int
    ) -> list[SegmentEntry]:
        """Return at most `limit` rows that end at `offset` or later, in offset order."""

    async def segments_before(
        self, partition: Partition, offset: int, limit: int
    ) -> list[SegmentEntry]:
        """Return at most `limit` rows between log start and `offset`, the last one first."""

    async def reserve_segment(
        self, partition: Partition, start_offset: int, end_offset: int
    ) -> str | None:
        """Reserve a path that no object ever had; None if the partition is gone.

        topics/{topic}/partitions/{partition}/segments/{start:08d}-{end:08d}.seg; a topic whose name
        was used before has `.` and 8 hex digits of its id behind its name, which is cut so that
        both have 255 characters at most, and a range that was reserved before has `.` and 8 hex
        digits of chance before `.seg`.
        """

    async def replace_segments(self, swap: SegmentSwap) -> bool:
        """Swap; False, and nothing changes, if the rows are not what they were, or are retained.

        Calling it again with the same arguments gives the same answer, while the object is live.
        The path is live (True) or doomed (False) afterwards. Objects that no row names any more are
        doomed right after; if the caller dies in between, by `doom_unneeded`. `built_offset` moves
        to the end of the swap if it was within.

        Raises:
            MetadataUnavailable: no answer; call again with the same arguments.
        """

    async def step_over(self, partition: Partition, start_offset: int, end_offset: int) -> bool:
        """Let what is not built begin behind rows that cannot be read, which stay as they are.

        False, and nothing changes, if it does not begin within these offsets (inclusive).
        """

    async def set_compacted(
        self, partition: Partition, compacted_offset: int, *, cleaned_ms: int | None
    ) -> None:
        """Take note of where a round of compaction has come to, and when. It never moves back.

        `cleaned_ms`: nothing behind that offset was written before, as far as is known; None if
        that is not known, so that what was known of it stays as it is. By the database's clock it
        is never later than now.
        """

    async def stored_ms(self, paths: Sequence[str]) -> dict[str, int]:
        """Return when live objects were stored (Unix time); those that are gone are left out."""

    # retention

    async def expire_records(self, requests: Sequence[RetentionRequest]) -> dict[Partition, int]:
        """Move log start offsets past what has had its time; never past the last stable offset.

        Returns:
            the new log start offset of each partition that has moved.
        """

    async def purge(self, limit: int) -> int:
        """Remove at most about `limit` rows of what cannot be read any more; doom objects.

        That is: rows of the index, and aborted transactions, before log start offsets; all of
        deleted topics.

        Returns:
            how many rows are gone; 0 if there is nothing left to do.
        """

    async def expire_producers(
        self, after: ProducerKey | None, unused_ms: int, limit: int
    ) -> tuple[int, ProducerKey | None]:
        """Look at `limit` producers' states in the order of their keys; forget old ones (KIP-98).

        Args:
            after: behind which to go on; None at the beginning.
            unused_ms: for how long nobody wrote with them.
            limit: of one step; what it forgets keeps commits waiting.

        Returns:
            how many are forgotten; and where to go on, None at the end.
        """

    # sweeper

    async def doom_abandoned(self, older_than_ms: int, limit: int) -> int:
        """Give up uploads that were reserved so long ago; return how many."""

    async def doom_unneeded(
        self, after: int, older_than_ms: int, limit: int
    ) -> tuple[int, int | None]:
        """Look at `limit` live objects in the order of their ids; doom those that no row names.

        Returns:
            how many; and where to go on, None at the end.
        """

    async def doomed_objects(self, grace_ms: int, limit: int) -> list[str]:
        """Return paths of objects that were doomed so long ago."""

    async def forget_objects(self, paths: Sequence[str]) -> None:
        """Remove the rows of doomed objects whose bytes are gone."""

    async def postpone_objects(self, paths: Sequence[str], delay_ms: int) -> None:
        """Treat objects that are doomed as if they were doomed in `delay_ms` from now."""

    async def known_objects(self, paths: Sequence[str]) -> set[str]:
        """Return those of these paths that an object has, pending, live or doomed."""

    async def uncommitted_objects(self, paths: Sequence[str]) -> set[str]:
        """Return those of these paths that no object has, or one that is pending."""

    async def topic_folder(self, topic_id: UUID) -> str | None:
        """Return the folder of a topic's segments; None if it never had one."""
