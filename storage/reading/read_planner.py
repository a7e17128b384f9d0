"""From what a fetch wants to the pieces of objects that have it: index rows, segment indexes.

A reader that goes from one offset to the next does not ask the index each time: it goes along the
rows that were named for the fetch before, for a moment. What was replaced or removed meanwhile has
its bytes for longer than that, and no offset means anything else later (D6).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from storage.aborted import MAX_KEPT
from storage.errors import ObjectStoreUnavailable, StorageError
from storage.metadata.port import MetadataStore, SegmentLookup
from storage.partition_log import PartitionLog
from storage.reading.read_ahead import READ_AHEAD_BYTES, Note, Route
from storage.reading.read_plan import Piece, from_offset, piece_of_row, take_bytes
from storage.reading.segment_indexes import SegmentIndexes
from storage.segment_entry import SegmentEntry

END: Final = 2**63 - 1
MARKER_BYTES: Final = 78  # a control batch with the end of a transaction
ROUTE_S: Final = 2.0
"""How long a route is good for: retention on another broker is seen that much later."""
LEAST_AHEAD_BYTES: Final = READ_AHEAD_BYTES // 2
"""Of a route that has less the index is asked again, so that there is something to read ahead."""


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
        named_s: when the index named them.
        left_bytes: of all of these.
        failure: an index that was needed could not be read; nothing behind it is planned.
        start_offset: of the first row; None if there is none.
        route: that it was made of, without a question to the index.
    """

    named_s: float
    left_bytes: int
    start_offset: int | None = None
    needed: list[Piece] = field(default_factory=list)
    following: Sequence[Piece] = ()
    rows: Sequence[SegmentEntry] = ()
    failure: StorageError | None = None
    route: Route | None = None


class Planner:
    """Asks Postgres with one query for all partitions of a fetch."""

    def __init__(
        self, metadata: MetadataStore, indexes: SegmentIndexes, clock: Callable[[], float]
    ) -> None:
        self._metadata = metadata
        self._indexes = indexes
        self._clock = clock

    async def plan(
        self, reads: Sequence[ColdRead], notes: Sequence[Note | None], until_s: float
    ) -> list[Plan]:
        """Return one plan for each read.

        Args:
            reads: what is wanted.
            notes: for each, of a reader who goes from one offset to the next, where its last read
                has ended; None for other readers. For the former, rows behind those that are needed
                are planned as well.
            until_s: how long segments' indexes are waited for. Once the store does not tell of one,
                no more are asked for: each would take as long. Those under way are waited for.

        Raises:
            MetadataUnavailable: the index gave no answer.
        """
        now_s = self._clock()
        plans = [self._along(*pair, now_s) for pair in zip(reads, notes, strict=True)]
        asked = [number for number, plan in enumerate(plans) if plan is None]
        if asked:
            lookups = [_lookup(reads[number], notes[number]) for number in asked]
            found = await self._metadata.find_segments(lookups)
            for number, rows in zip(asked, found, strict=True):
                plans[number] = _new_plan(rows, now_s)
        made = [plan for plan in plans if plan is not None]
        for plan in made:
            if not plan.following and plan.rows and plan.rows[0].index_length:
                self._indexes.begin(plan.rows[0])  # those of all partitions at once
        asks = True
        for read, plan in zip(reads, made, strict=True):
            await self._fill(read, plan, until_s, asks=asks)
            asks = asks and not isinstance(plan.failure, ObjectStoreUnavailable)
        return made

    def _along(self, read: ColdRead, note: Note | None, now_s: float) -> Plan | None:
        """Return a plan along the route of the read before; None if the index is to be asked."""
        if note is None or (route := note.route) is None or now_s - route.named_s > ROUTE_S:
            return None
        if read.end_offset != END and read.log.aborted_count > MAX_KEPT:
            return None  # what to skip of records that are purged, only the index knows, until then
        is_short = route.left_bytes < read.max_bytes + LEAST_AHEAD_BYTES
        if is_short and route.end_offset < read.log.high_watermark - 1:
            return None
        pieces = from_offset(route.pieces, read.offset)
        if not (pieces or route.rows) or read.log.tail.gap_end(read.offset) is not None:
            return None
        return Plan(
            named_s=route.named_s,
            left_bytes=route.left_bytes,
            start_offset=pieces[0].first_offset if pieces else route.rows[0].start_offset,
            following=pieces,
            rows=route.rows,
            route=route,
        )

    async def _fill(self, read: ColdRead, plan: Plan, until_s: float, *, asks: bool) -> None:
        """Make out which pieces are needed, up to max_bytes of them."""
        size = 0
        while True:
            if plan.following:
                taken = take_bytes(plan.following, read.max_bytes - size)
                plan.needed += taken
                plan.following = plan.following[len(taken) :]
                size += sum([piece.length for piece in taken])
            if size >= read.max_bytes or not plan.rows:
                return
            row = plan.rows[0]
            if row.start_offset >= read.end_offset:
                return
            if row.index_length:
                try:
                    pieces = await self._indexes.pieces(row, until_s, asks=asks)
                except StorageError as error:
                    plan.failure = error
                    return
                plan.following = from_offset(pieces, read.offset)
            else:
                plan.following = [piece_of_row(row)]
            plan.rows = plan.rows[1:]


def _new_plan(rows: Sequence[SegmentEntry], now_s: float) -> Plan:
    size = sum([row.length for row in rows])
    return Plan(now_s, size, start_offset=rows[0].start_offset if rows else None, rows=rows)


def _lookup(read: ColdRead, note: Note | None) -> SegmentLookup:
    wanted = read.max_bytes
    if note is not None:
        wanted += note.bytes_before + READ_AHEAD_BYTES
    gap_end = read.log.tail.gap_end(read.offset)
    if gap_end is not None:  # markers that other brokers wrote; memory has what comes behind them
        wanted = (gap_end - read.offset) * MARKER_BYTES
    return SegmentLookup(partition=read.log.partition, offset=read.offset, max_bytes=wanted)
