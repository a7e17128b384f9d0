"""One segment that log compaction writes in the place of a group of adjacent rows."""

from collections.abc import Sequence
from typing import Final

import structlog

from protocol.batch import BatchHeader, read_header
from protocol.errors import ProtocolError
from protocol.ids import Partition
from storage.aborted_ranges import merge_aborted
from storage.aborted_transaction import AbortedTransaction
from storage.objects.port import Buffer
from storage.segment_encoder import BuiltSegment, SegmentEncoder
from storage.segment_entry import SegmentEntry
from storage.upkeep.compaction_batches import clean_batch, empty_batch
from storage.upkeep.compaction_keys import LatestOffsets
from storage.upkeep.compaction_transactions import SeenTransactions
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.segment_rows import RowPart

MAX_BATCHES: Final = 100_000
"""Each costs 200 bytes of memory until the segment is uploaded, however small it is."""

_FOR_EVER_MS: Final = 2**63 - 1

log = structlog.get_logger()


class CleanedSegment:
    """See the module's docstring.

    Tombstones, and markers that nothing depends on, stay until their delete horizon: the time when
    compaction first met them as such, and delete.retention.ms. It is known per batch, and kept in
    the index of the segment (Kafka has it in the batch, KIP-534, which other readers would see).

    Args:
        latest: of all keys before its end offset.
        transactions: of the whole pass.
        now_ms: when the pass began.
        keeps_tombstones: whether the pass has met a batch that it cannot read.

    Attributes:
        rows: of which it has what is left.
        records_read, records_kept: of data batches that could be read.
        unreadable_batches: that stay as they are.
        keeps_tombstones: no tombstone goes any more: a batch that stays, because it cannot be read
            here, may have a value that would come back.
        changed: whether anything of the rows would be different.
    """

    def __init__(
        self,
        *,
        partition: Partition,
        policy: TopicPolicy,
        start_offset: int,
        latest: LatestOffsets,
        transactions: SeenTransactions,
        now_ms: int,
        keeps_tombstones: bool = False,
    ) -> None:
        self.rows: list[SegmentEntry] = []
        self.records_read = 0
        self.records_kept = 0
        self.unreadable_batches = 0
        self.keeps_tombstones = keeps_tombstones
        self.changed = False
        self._policy = policy
        self._latest = latest
        self._transactions = transactions
        self._now_ms = now_ms
        self._encoder = SegmentEncoder(
            topic_id=partition.topic_id,
            partition=partition.index,
            topic=policy,
            start_offset=start_offset,
        )
        self._batches = 0
        self._last_offset = start_offset - 1
        self._aborted: dict[int, AbortedTransaction] = {}  # by last offset
        self._horizons: list[tuple[int, int]] = []
        self._row_horizons: dict[int, int] = {}
        self._row_failures: list[ProtocolError] = []

    def has_room_for(self, entry: SegmentEntry, target_bytes: int) -> bool:
        """Return whether another row, as large as it is, may be added."""
        return self._encoder.size + entry.length <= target_bytes and self._batches < MAX_BATCHES

    def begin_row(self, part: RowPart, aborted: Sequence[AbortedTransaction]) -> None:
        """Go on with the next row.

        Args:
            part: its first one.
            aborted: transactions with records in the row, as the metadata tells. Of others that its
                own index tells of, nothing will be left.
        """
        self.changed |= bool(self.rows) or part.index is None
        self.rows.append(part.entry)
        forgotten = part.index.aborted if part.index is not None else ()
        self._transactions.expect(merge_aborted([forgotten, aborted]))
        self._aborted.update((one.last_offset, one) for one in aborted)
        self._row_horizons = dict(part.index.horizons) if part.index is not None else {}
        self._row_failures = []

    def take(self, part: RowPart) -> None:
        """Add what is left of the batches of a part; batches that are kept are copied."""
        for batch in part.batches:
            header = read_header(batch)
            if header.is_control:
                self._take_marker(batch, header)
            elif header.record_count:
                self._take_data(batch, header)
        if part.is_last and self._row_failures:
            self.unreadable_batches += len(self._row_failures)
            log.warning(
                "batches are not compacted, because they cannot be read",
                topic=self._policy.name,
                path=part.entry.path,
                batches=len(self._row_failures),
                first_reason=str(self._row_failures[0]),
            )

    def finish(self) -> BuiltSegment:
        """Return the object in the place of all rows."""
        end_offset = self.rows[-1].end_offset
        if self._last_offset < end_offset:
            self._add(empty_batch(end_offset), end_offset)
        aborted = [self._aborted[last_offset] for last_offset in sorted(self._aborted)]
        return self._encoder.finish(end_offset=end_offset, aborted=aborted, horizons=self._horizons)

    def _take_marker(self, batch: memoryview, header: BatchHeader) -> None:
        needed = self._transactions.end(header)
        if not needed and self._has_had_its_time(header):
            self.changed = True
            return
        if not needed:
            self._keep_horizon(header)
        self._keep(batch, header)

    def _take_data(self, batch: memoryview, header: BatchHeader) -> None:
        self._transactions.see(header)
        if self._transactions.is_aborted(header):
            self.records_read += header.record_count
            self.changed = True
            return
        if header.base_offset >= self._latest.end_offset:
            self.records_read += header.record_count
            self.records_kept += header.record_count
            if header.base_offset in self._row_horizons:
                self._keep_horizon(header)
            self._keep(batch, header)
            return
        policy = self._policy
        try:
            cleaned = clean_batch(
                batch,
                header,
                self._latest,
                drop_tombstones=not self.keeps_tombstones and self._has_had_its_time(header),
                level=policy.compression_level if policy.codec == header.codec else None,
            )
        except ProtocolError as error:
            self._row_failures.append(error)
            self.keeps_tombstones = True
            self._keep(batch, header)
            return
        self.records_read += header.record_count
        self.records_kept += cleaned.records
        last_offset = header.base_offset + header.last_offset_delta
        # Of a batch in part behind the known keys other tombstones are yet to be met.
        if cleaned.has_tombstones and last_offset < self._latest.end_offset:
            self._keep_horizon(header)
        if cleaned.data is batch:
            self._keep(batch, header)
            return
        self.changed = True
        if cleaned.data is not None:
            self._add(cleaned.data, last_offset)

    def _has_had_its_time(self, header: BatchHeader) -> bool:
        horizon_ms = self._row_horizons.get(header.base_offset)
        return horizon_ms is not None and horizon_ms <= self._now_ms

    def _keep_horizon(self, header: BatchHeader) -> None:
        horizon_ms = self._row_horizons.get(header.base_offset)
        if horizon_ms is None:
            horizon_ms = min(self._now_ms + self._policy.delete_retention_ms, _FOR_EVER_MS)
            self.changed = True
        self._horizons.append((header.base_offset, horizon_ms))

    def _keep(self, batch: memoryview, header: BatchHeader) -> None:
        # A view would hold on to all bytes that were read together with it.
        self._add(bytes(batch), header.base_offset + header.last_offset_delta)

    def _add(self, batch: Buffer, last_offset: int) -> None:
        self._encoder.add(batch)
        self._batches += 1
        self._last_offset = last_offset
