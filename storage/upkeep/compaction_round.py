"""One round of log compaction: learn the latest offsets of a partition's keys, then rewrite it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import structlog

from protocol.batch import read_header
from protocol.errors import ProtocolError
from storage.aborted_ranges import aborted_ranges
from storage.aborted_transaction import AbortedTransaction
from storage.config import UpkeepConfig
from storage.metadata.port import MetadataStore
from storage.metadata.segments import CleanableRange
from storage.objects.port import ObjectStore
from storage.segment_entry import SegmentEntry
from storage.upkeep.compaction_batches import add_keys
from storage.upkeep.compaction_counts import CompactionCounts
from storage.upkeep.compaction_keys import LatestOffsets
from storage.upkeep.compaction_rows import CompactionRows
from storage.upkeep.compaction_segment import CleanedSegment
from storage.upkeep.compaction_transactions import SeenTransactions
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.segment_layout import RowsChanged, UnreadableRow
from storage.upkeep.segment_rows import RowPart
from storage.upkeep.segment_swap import SegmentSwapper

log = structlog.get_logger()


class CompactionRound:
    """See the module's docstring; CPU-bound steps run in a thread.

    Args:
        found: what is cleanable: its end is that of a row, and not too young.
        now_ms: Unix time.
        counts: is added to.
    """

    def __init__(
        self,
        *,
        metadata: MetadataStore,
        objects: ObjectStore,
        swapper: SegmentSwapper,
        config: UpkeepConfig,
        policy: TopicPolicy,
        found: CleanableRange,
        now_ms: int,
        counts: CompactionCounts,
    ) -> None:
        self._metadata = metadata
        self._swapper = swapper
        self._partition = found.partition
        self._policy = policy
        self._found = found
        self._now_ms = now_ms
        self._counts = counts
        self._target_bytes = min(policy.segment_bytes, config.segment_bytes)
        self._dirty_offset = found.first_dirty_offset
        self._rows = CompactionRows(metadata, objects, found.partition)
        self._latest = LatestOffsets(
            max_bytes=config.key_map_bytes,
            max_keys=found.end_offset - self._dirty_offset,
            start_offset=self._dirty_offset,
        )
        self._clean_offset = found.log_start_offset  # before it, all is rewritten
        self._clean_ms = -1  # when the newest record of the last row before it was made, if known
        self._keeps_tombstones = False  # since a batch was met that cannot be read

    async def run(self) -> bool:
        """Do it.

        Returns:
            whether there are more keys than the map holds, so that another round has to follow.

        Raises:
            RowsChanged, UnreadableRow, UnknownPartition: it ends here; what is done is noted.
            MetadataUnavailable, ObjectStoreUnavailable: no answer; trying again is safe.
        """
        try:
            await self._learn()
        except (RowsChanged, UnreadableRow):
            # Learning takes minutes, and the builder merges small rows at the end meanwhile; or a
            # row is damaged. All keys before the end of what is known are known: that much can be
            # compacted.
            if self._latest.end_offset <= self._dirty_offset:
                raise
        try:
            await self._rewrite()
        except (RowsChanged, UnreadableRow) as cut_short:
            # Of what is dirty, only that behind the rewritten part has yet to be compacted. That
            # is so after each round if the builder often merges rows at the end.
            known_ms = self._clean_ms if isinstance(cut_short, RowsChanged) else -1
            await self._note(min(self._clean_offset, self._latest.end_offset), known_ms)
            raise
        goes_on = self._latest.end_offset < self._found.end_offset
        await self._note(self._latest.end_offset, -1 if goes_on else self._now_ms)
        self._counts.rounds += 1
        log.info(
            "log compacted",
            topic=self._policy.name,
            partition=self._partition.index,
            keys=self._latest.keys,
            dirty_offset=self._dirty_offset,
            end_offset=self._latest.end_offset,
        )
        return goes_on

    async def _note(self, offset: int, known_ms: int) -> None:
        """Take note of an end; behind it nothing was written before `known_ms`, unless that is -1.

        Or before what was too young for the round.
        """
        if offset > self._dirty_offset:
            left_ms = max(self._now_ms - self._policy.min_compaction_lag_ms, 0)
            cleaned_ms = min(known_ms, left_ms) if known_ms >= 0 else None
            await self._metadata.set_compacted(self._partition, offset, cleaned_ms=cleaned_ms)

    async def _learn(self) -> None:
        transactions = SeenTransactions()
        entry: SegmentEntry | None = None
        parts = self._rows.parts(self._dirty_offset, self._found.end_offset)
        try:
            async with aclosing(parts):
                async for part in parts:
                    if part.entry is not entry:
                        entry = part.entry
                        transactions.expect(await self._aborted(entry))
                    if not await asyncio.to_thread(self._learn_part, part, transactions):
                        return
        except UnreadableRow as unreadable:  # its first parts may have been read
            start_offset = unreadable.entry.start_offset
            self._latest.end_offset = min(self._latest.end_offset, start_offset)
            raise

    def _learn_part(self, part: RowPart, transactions: SeenTransactions) -> bool:
        """Return whether there was room."""
        latest = self._latest
        for batch in part.batches:
            header = read_header(batch)
            if header.is_control or not header.record_count or transactions.is_aborted(header):
                continue
            self._counts.records_learned += header.record_count
            try:
                if not add_keys(batch, header, latest, self._dirty_offset):
                    return False
            except ProtocolError:
                continue  # it stays as it is, and is reported then
        if part.is_last:
            latest.end_offset = part.entry.end_offset + 1
        return True

    async def _rewrite(self) -> None:
        transactions = SeenTransactions()
        segment: CleanedSegment | None = None
        async with aclosing(self._known_parts()) as parts:
            async for part in parts:
                entry = part.entry
                if segment is None or segment.rows[-1] is not entry:
                    if segment is not None and not self._goes_on(segment, entry):
                        await self._replace(segment)
                        segment = None
                    if segment is None:
                        segment = self._new_segment(entry, transactions)
                    segment.begin_row(part, await self._aborted(entry))
                await asyncio.to_thread(segment.take, part)
        if segment is not None:
            await self._replace(segment)
        if self._clean_offset < self._latest.end_offset:
            raise RowsChanged  # the builder has put later records into the last of them

    async def _known_parts(self) -> AsyncGenerator[RowPart]:
        """Yield all rows that begin before the end of what is known."""
        end_offset = self._latest.end_offset
        parts = self._rows.parts(self._found.log_start_offset, self._found.end_offset)
        try:
            async with aclosing(parts):
                async for part in parts:
                    if part.entry.start_offset >= end_offset:
                        return
                    yield part
        except UnreadableRow as unreadable:
            if unreadable.entry.start_offset < end_offset:
                raise

    def _goes_on(self, segment: CleanedSegment, entry: SegmentEntry) -> bool:
        """Return whether a segment takes the next row, too; what stands for a gap is left alone."""
        is_any_gap = entry.is_gap or segment.rows[-1].is_gap
        return not is_any_gap and segment.has_room_for(entry, self._target_bytes)

    def _new_segment(self, entry: SegmentEntry, transactions: SeenTransactions) -> CleanedSegment:
        return CleanedSegment(
            partition=self._partition,
            policy=self._policy,
            start_offset=entry.start_offset,
            latest=self._latest,
            transactions=transactions,
            now_ms=self._now_ms,
            keeps_tombstones=self._keeps_tombstones,
        )

    async def _replace(self, segment: CleanedSegment) -> None:
        """Put a segment in the place of its rows, unless nothing would be different."""
        if segment.changed and not segment.rows[0].is_gap:
            built = segment.finish()
            swapped = await self._swapper.swap(self._partition, built, segment.rows, compacts=True)
            if swapped is None:
                raise RowsChanged
            self._counts.segments += 1
            self._counts.rows += len(segment.rows)
            self._counts.size += built.size
        self._counts.records_read += segment.records_read
        self._counts.records_kept += segment.records_kept
        self._counts.unreadable_batches += segment.unreadable_batches
        self._keeps_tombstones = segment.keeps_tombstones
        self._clean_offset = segment.rows[-1].end_offset + 1
        self._clean_ms = segment.rows[-1].max_timestamp_ms

    async def _aborted(self, entry: SegmentEntry) -> list[AbortedTransaction]:
        return await aborted_ranges(
            self._metadata, self._partition, entry.start_offset, entry.end_offset + 1
        )
