"""From what a fetch wants to the pieces of objects that have it: index rows, segment indexes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from storage.errors import StorageError
from storage.metadata import MetadataStore, SegmentLookup
from storage.partition_log import PartitionLog
from storage.read_ahead import READ_AHEAD_BYTES
from storage.read_plan import Piece, piece_of_row, pieces_of_segment, take_bytes
from storage.segment_entry import SegmentEntry
from storage.segment_indexes import SegmentIndexes

END: Final = 2**63 - 1
MARKER_BYTES: Final = 78  # a control batch with the end of a transaction


@dataclass(frozen=True, slots=True)
class ColdRead:
    """What a fetch wants of one partition that the tail does not hold.

    Attributes:
        end_offset: where a batch begins that is not wanted any more, or the log ends.
    """

    log: PartitionLog
    offset: int
    max_bytes: int
    end_offset: int = END


@dataclass(slots=True)
class Plan:
    """How one partition is read.

    Attributes:
        needed: pieces from the one that answers for the offset on; none at the end of the log.
        following: those behind them in the same segment.
        rows: of the index, behind those.
        failure: an index that was needed could not be read; nothing behind it is planned.
        start_offset: of the first row; None if there is none.
    """

    needed: list[Piece] = field(default_factory=list)
    following: list[Piece] = field(default_factory=list)
    rows: Sequence[SegmentEntry] = ()
    failure: StorageError | None = None
    start_offset: int | None = None


class Planner:
    """Asks Postgres with one query for all partitions of a fetch."""

    def __init__(self, metadata: MetadataStore, indexes: SegmentIndexes) -> None:
        self._metadata = metadata
        self._indexes = indexes

    async def plan(
        self, reads: Sequence[ColdRead], bytes_behind: Sequence[int | None]
    ) -> list[Plan]:
        """Return one plan for each read.

        Args:
            reads: what is wanted.
            bytes_behind: for each, of a reader who goes from one offset to the next, how much of
                the first row it has read already: rows behind it are planned as well. None for
                other readers.

        Raises:
            MetadataUnavailable: the index gave no answer.
        """
        lookups = [_lookup(*pair) for pair in zip(reads, bytes_behind, strict=True)]
        rows = await self._metadata.find_segments(lookups)
        return await asyncio.gather(*map(self._plan, reads, rows))

    async def _plan(self, read: ColdRead, rows: Sequence[SegmentEntry]) -> Plan:
        plan = Plan(start_offset=rows[0].start_offset if rows else None)
        size = 0
        for number, row in enumerate(rows):
            if size >= read.max_bytes or row.start_offset >= read.end_offset:
                break
            pieces = [piece_of_row(row)]
            if row.index_length:
                try:
                    index = await self._indexes.read(row)
                except StorageError as error:
                    plan.failure = error
                    break
                pieces = pieces_of_segment(row, index, read.offset)
            taken = take_bytes(pieces, read.max_bytes - size)
            plan.needed += taken
            plan.following = pieces[len(taken) :]
            plan.rows = rows[number + 1 :]
            size += sum(piece.length for piece in taken)
        return plan


def _lookup(read: ColdRead, bytes_behind: int | None) -> SegmentLookup:
    wanted = read.max_bytes
    if bytes_behind is not None:
        wanted += bytes_behind + READ_AHEAD_BYTES
    gap_end = read.log.tail.gap_end(read.offset)
    if gap_end is not None:  # markers that other brokers wrote; memory has what comes behind them
        wanted = (gap_end - read.offset) * MARKER_BYTES
    return SegmentLookup(partition=read.log.partition, offset=read.offset, max_bytes=wanted)
