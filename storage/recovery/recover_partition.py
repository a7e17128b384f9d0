"""The rows, producers and aborted transactions of one partition; pure.

Ends of transactions are where the writers' objects tell. Offsets that nobody has any more stay
taken, so that all others stay as they were. Where they are between writers' batches, a batch in the
index itself has them: the marker of a transaction if one is open there whose end nobody tells,
because most often that is what is missing, or an empty batch.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from protocol.control_batch import EndMarker, build_end_marker
from protocol.records import build_batch
from storage.aborted_ranges import merge_aborted
from storage.aborted_transaction import AbortedTransaction
from storage.recovery.recover_producers import OpenTransaction, Producers
from storage.recovery.recover_runs import PlacedRun
from storage.recovery.recover_scratch import FoundBatch, FoundSegment
from storage.recovery.recover_told import NONE_GONE, Gone
from storage.segment_entry import SegmentEntry

LOG_EPOCH: Final = 0  # in batches: there is one log, and it never diverges
_LARGEST_COUNT: Final = 2**31


@dataclass(slots=True)
class RebuiltPartition:
    """What is to be written into the index.

    Attributes:
        rows: in offset order; of those that lie in the index, `inline` is set, and no path.
        built_offset: rows before it are built segments, or lie between them.
        lost: (first, last) offset of ranges that nobody has.
        moved: records that were put at the end, because their offsets are not known.
        unfinished: transactions without a marker, aborted now.
    """

    log_start_offset: int
    high_watermark: int
    built_offset: int
    rows: list[SegmentEntry] = field(default_factory=list)
    producers: Producers = field(default_factory=Producers)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    leader_epoch: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    moved: int = 0
    unfinished: int = 0

    @property
    def built_records(self) -> int:
        """Offsets of built segments."""
        return sum(row.end_offset - row.start_offset + 1 for row in self.rows if row.index_length)


class PartitionBuilder:
    """Puts one partition together.

    Args:
        built: rows that tile up to where the last segment ends, in offset order.
        producers: as they are at the end of them.
        endings: of transactions, by the offsets of their markers, ascending.
        gone: batches that nobody has.
        now_ms: for the markers that nobody tells.
    """

    def __init__(
        self,
        built: Sequence[SegmentEntry],
        producers: Producers,
        endings: Mapping[int, EndMarker],
        *,
        log_start_offset: int,
        now_ms: int,
        gone: Gone = NONE_GONE,
    ) -> None:
        end = built[-1].end_offset + 1 if built else log_start_offset
        self._result = RebuiltPartition(
            log_start_offset=log_start_offset,
            high_watermark=end,
            built_offset=end if built else 0,
            rows=list(built),
            producers=producers,
        )
        self._endings = deque((offset, one) for offset, one in endings.items() if offset >= end)
        self._told = Counter((one.producer_id, one.producer_epoch) for _, one in self._endings)
        self._gone = gone
        self._now_ms = now_ms

    def add(self, run: PlacedRun) -> None:
        """Go on with a run that begins where the log ends, or behind that."""
        result = self._result
        if run.offset > result.high_watermark:
            self._fill(run.offset)
        if not run.is_certain:
            result.moved += run.count
        result.rows += rows_of(run)
        for batch, offset in run.placed():
            result.producers.take(batch, offset)
        result.leader_epoch = max(result.leader_epoch, run.batches[0].leader_epoch)
        result.high_watermark = run.offset + run.count

    def finish(
        self, aborted: Sequence[AbortedTransaction], *, end_offset: int = 0
    ) -> RebuiltPartition:
        """End what is open, and return all of it.

        Args:
            aborted: what the built segments tell.
            end_offset: before which the log does not end.
        """
        result = self._result
        if self._endings:
            self._fill(self._endings[-1][0] + 1)
        self._fill(end_offset)
        if result.high_watermark < self._gone.end_offset:
            self._fill(self._gone.safe_offset)
        self._end_transactions(len(result.producers.open))
        result.aborted = [
            one
            for one in merge_aborted([aborted, result.aborted])
            if result.log_start_offset <= one.last_offset < result.high_watermark
        ]
        return result

    def _fill(self, offset: int) -> None:
        """Take the offsets from the end of the log up to one."""
        while self._endings and self._endings[0][0] < offset:
            at, marker = self._endings.popleft()
            if at >= self._result.high_watermark:  # else something is there, which cannot be
                self._fill_unknown(at)
                self._append_marker(marker)
            self._told[marker.producer_id, marker.producer_epoch] -= 1
        self._fill_unknown(offset)

    def _fill_unknown(self, offset: int) -> None:
        """Take the offsets up to one of which nothing is told."""
        result = self._result
        if offset <= result.high_watermark:
            return
        self._end_transactions(self._gone.free_before(result.high_watermark, offset))
        end = self._gone.end_offset if offset == self._gone.safe_offset else offset
        if result.high_watermark < end:
            result.lost.append((result.high_watermark, end - 1))
        while result.high_watermark < offset:
            count = min(offset - result.high_watermark, _LARGEST_COUNT)
            self._append_inline(build_batch([], last_offset_delta=count - 1), count, -1)

    def _end_transactions(self, most: int) -> None:
        """Abort the transactions that have been open for longest, if nobody tells their ends."""
        producers = self._result.producers
        lasting = [one for one in producers.open.values() if not self._is_told(one)]
        for one in sorted(lasting, key=lambda one: one.first_offset)[:most]:
            self._append_marker(
                EndMarker(
                    producer_id=one.producer_id,
                    producer_epoch=one.producer_epoch,
                    committed=False,
                    timestamp_ms=self._now_ms,
                )
            )
            self._result.unfinished += 1

    def _is_told(self, one: OpenTransaction) -> bool:
        """Whether its end comes further on; with KIP-890, the marker has the next epoch."""
        epochs = (one.producer_epoch, one.producer_epoch + 1)
        return any(self._told[one.producer_id, epoch] for epoch in epochs)

    def _append_marker(self, marker: EndMarker) -> None:
        result = self._result
        ended = result.producers.open.get(marker.producer_id)
        if ended is not None and not marker.committed:
            result.aborted.append(
                AbortedTransaction(
                    producer_id=ended.producer_id,
                    first_offset=ended.first_offset,
                    last_offset=result.high_watermark,
                )
            )
        batch = build_end_marker(marker, leader_epoch=LOG_EPOCH)
        self._append_inline(batch, 1, marker.timestamp_ms)
        result.producers.end(marker.producer_id, marker.producer_epoch)

    def _append_inline(self, batch: bytes, count: int, max_timestamp_ms: int) -> None:
        start = self._result.high_watermark
        self._result.rows.append(
            SegmentEntry(
                start_offset=start,
                end_offset=start + count - 1,
                path="",
                start=0,
                length=len(batch),
                max_timestamp_ms=max_timestamp_ms,
                inline=batch,
            )
        )
        self._result.high_watermark += count


def rows_of(run: PlacedRun) -> Iterator[SegmentEntry]:
    """Yield the rows of a run that has its place."""
    offset = run.offset
    for pieces in _side_by_side(run.batches):
        count = sum(batch.record_count for batch in pieces)
        yield SegmentEntry(
            start_offset=offset,
            end_offset=offset + count - 1,
            path=pieces[0].path,
            start=pieces[0].byte_start,
            length=sum(batch.byte_length for batch in pieces),
            max_timestamp_ms=max(batch.max_timestamp_ms for batch in pieces),
        )
        offset += count


def row_of(one: FoundSegment) -> SegmentEntry:
    """Return the row of a built segment."""
    return SegmentEntry(
        start_offset=one.start_offset,
        end_offset=one.end_offset,
        path=one.path,
        start=one.byte_start,
        length=one.byte_length,
        max_timestamp_ms=one.max_timestamp_ms,
        index_length=one.index_length,
    )


def _side_by_side(batches: Sequence[FoundBatch]) -> Iterator[list[FoundBatch]]:
    """Yield groups without a byte between them; a row has one range of bytes."""
    group: list[FoundBatch] = []
    for batch in batches:
        if group and batch.byte_start != group[-1].byte_start + group[-1].byte_length:
            yield group
            group = []
        group.append(batch)
    if group:
        yield group
