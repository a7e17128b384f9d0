"""Rebuilds the index of a lost Postgres from the objects of a store (`streamctl recover`).

    scan      every object says what it has; that is noted in a temporary file   recover_scan
    choose    built segments that tile a partition                               recover_segments
    order     the writers' batches as they were committed                        recover_order
    fill      gaps between them with the writers' batches that belong there      recover_gaps
    keep      what else the gaps had: ends of transactions, and offsets          recover_empty
    compare   which of the writers' other batches are in them                    recover_unbuilt
    place     those that are not behind them, and behind all that is told        recover_placement
    write     rows, producers and aborted transactions of a partition            recover_partition

Memory is bounded by the largest partition. Nothing is there before all of it is.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final
from uuid import UUID

from protocol.control_batch import EndMarker
from protocol.ids import Partition
from storage.aborted_ranges import merge_aborted
from storage.aborted_transaction import AbortedTransaction
from storage.fsck.fsck import Progress
from storage.objects.port import ObjectStore
from storage.objects.store_marker import read_marker
from storage.recovery.recover_between import (
    BuiltPart,
    aborted_between,
    ends_in,
    in_offset_order,
    without_markers,
)
from storage.recovery.recover_empty import EmptySegments
from storage.recovery.recover_gaps import offsets_lost, place_in_gaps
from storage.recovery.recover_order import in_commit_order, with_places
from storage.recovery.recover_partition import PartitionBuilder, RebuiltPartition, row_of, rows_of
from storage.recovery.recover_placement import place, without_repeated
from storage.recovery.recover_postgres import EmptyDatabase
from storage.recovery.recover_report import FOREVER_NOTE, RecoveryReport, TopicReport
from storage.recovery.recover_scan import Scan
from storage.recovery.recover_scratch import FoundBatch, FoundSegment, Scratch
from storage.recovery.recover_segments import (
    aborted_in_gaps,
    choose_segments,
    gaps_between,
    left_out,
)
from storage.recovery.recover_tail import read_tail_of
from storage.recovery.recover_told import Gone, end_of_segments, gone_of
from storage.recovery.recover_topics import FoundTopic, live_topics
from storage.recovery.recover_unbuilt import BuiltLog, unbuilt
from storage.upkeep.policies import UNLIMITED

OBJECTS_AT_ONCE: Final = 10_000
PRODUCER_ID_MARGIN: Final = 1_000_000
"""Producers whose records are all built long ago are not met: new ones get ids far above."""

GENERATION_MARGIN: Final = 1_000
"""Clients take no leader epoch that is older than one they know (KIP-320)."""

_START: Final = attrgetter("start_offset")


class Recovery:
    """One recovery.

    Args:
        dry_run: nothing is written into the store.

    Attributes:
        report: complete when `run` has ended.
    """

    def __init__(
        self,
        *,
        objects: ObjectStore,
        database: EmptyDatabase,
        now_ms: Callable[[], int],
        dry_run: bool,
    ) -> None:
        self.report = RecoveryReport()
        self._objects = objects
        self._database = database
        self._now_ms = now_ms
        self._scratch = Scratch()
        self._dry_run = dry_run
        self._empty = EmptySegments(objects, database, self._scratch)

    async def run(self) -> AsyncIterator[Progress]:
        """Recover; yield how far it has come.

        Raises:
            CorruptObject: the store's mark of a cluster cannot be read.
            MetadataUnavailable, ObjectStoreUnavailable: no answer.
            BadObject: an object that was read before cannot be read any more.
        """
        try:
            scan = Scan(self._objects, self._scratch)
            async for done in scan.run():
                yield Progress(step="objects", done=done, total=0)
            await self._begin(scan)
            topics, left_out_topics = live_topics(scan.scanned.topics)
            self.report.left_out += left_out_topics
            for topic in topics.values():
                if topic.configs is None:  # nobody knows how long its records were to be kept
                    topic.configs = {"retention.ms": str(UNLIMITED)}
            await self._database.add_topics(topics.items())
            for number, (topic_id, topic) in enumerate(topics.items(), 1):
                await self._recover_topic(topic_id, topic)
                yield Progress(step="topics", done=number, total=len(topics))
            self.report.unneeded = await self._database.finish()
            if not self._dry_run:
                await self._empty.store()
        finally:
            self._scratch.close()

    async def _begin(self, scan: Scan) -> None:
        scanned, report = scan.scanned, self.report
        report.segments, report.uploads = scanned.segments, scanned.uploads
        report.repeated = scanned.repeated
        report.unreadable += scanned.unreadable
        report.cluster_id, report.next_producer_id = await self._database.set_cluster(
            await read_marker(self._objects),
            next_producer_id=scanned.last_producer_id + 1 + PRODUCER_ID_MARGIN,
            generation=scanned.last_leader_epoch + GENERATION_MARGIN,
        )
        report.keeping = await self._database.keep_records()
        for page in self._scratch.objects(OBJECTS_AT_ONCE):
            self._scratch.set_object_ids(await self._database.add_objects(page))
        await self._database.add_folders(
            (topic.folder, topic_id) for topic_id, topic in scanned.topics.items() if topic.folder
        )

    async def _recover_topic(self, topic_id: UUID, topic: FoundTopic) -> None:
        rebuilt: list[RebuiltPartition] = []
        for index in range(topic.partition_count):
            partition = Partition(topic_id, index)
            one = await self._rebuild(partition, topic)
            await self._database.add_partition(partition, one, self._scratch.object_id)
            rebuilt.append(one)
        self.report.topics.append(
            TopicReport(
                name=topic.name,
                partitions=topic.partition_count,
                records=sum(one.high_watermark - one.log_start_offset for one in rebuilt),
                built_records=sum(one.built_records for one in rebuilt),
                lost=[(index, *lost) for index, one in enumerate(rebuilt) for lost in one.lost],
                moved=sum(one.moved for one in rebuilt),
                unfinished=sum(one.unfinished for one in rebuilt),
                note="" if topic.configs_ms >= 0 else FOREVER_NOTE,
            )
        )

    async def _rebuild(self, partition: Partition, topic: FoundTopic) -> RebuiltPartition:
        segments, endings = self._scratch.segments(partition), self._scratch.endings(partition)
        chosen, known = choose_segments(segments), aborted_in_gaps(segments)
        found, places = self._scratch.batches(partition), self._scratch.places(partition)
        gone = gone_of(found, places)
        batches = in_commit_order(with_places(found, places))
        part = BuiltPart()
        if chosen:
            part, batches = await self._built_part(
                partition, topic, chosen, batches, endings, known, gone
            )
        kept = without_repeated(batches, part.producers)
        self.report.left_out += (
            f"{topic.name}: {one.path}, of producer {one.producer_id} that went on: no place fits"
            for one in part.homeless
            if one not in kept
        )
        endings = {offset: one for offset, one in endings.items() if offset >= part.end_offset}
        behind = [offset for offset in gone.offsets if offset >= part.end_offset]
        runs = place(kept, part.end_offset if chosen else None, endings, behind)
        start = runs[0].offset if runs else gone.end_of_empty(endings)
        start = part.rows[0].start_offset if chosen else start
        builder = PartitionBuilder(
            part.rows,
            part.producers,
            endings,
            log_start_offset=start,
            now_ms=self._now_ms(),
            gone=gone,
        )
        for run in runs:
            builder.add(run)
        aborted = merge_aborted([known, part.aborted])
        rebuilt = builder.finish(aborted, end_offset=end_of_segments(segments))
        missing = [(0, start - 1), *part.lost, *rebuilt.lost]
        await self._leave_out(topic, left_out(segments, chosen, missing))
        configs = topic.configs if topic.configs_ms >= 0 else None
        rebuilt.lost[:0] = offsets_lost(part.lost, start, chosen, configs)
        return rebuilt

    async def _leave_out(self, topic: FoundTopic, segments: Sequence[FoundSegment]) -> None:
        """Tell of segments, and let nobody delete them: not all that they have is in the log."""
        if not segments:
            return
        self.report.left_out += (
            f"{topic.name}: {one.path}, which contradicts others: not all of its offsets are there"
            for one in segments
        )
        await self._database.remove_objects([one.path for one in segments])

    async def _built_part(
        self,
        partition: Partition,
        topic: FoundTopic,
        chosen: Sequence[FoundSegment],
        batches: Sequence[FoundBatch],
        endings: Mapping[int, EndMarker],
        known: Sequence[AbortedTransaction],
        gone: Gone,
    ) -> tuple[BuiltPart, list[FoundBatch]]:
        """Return the part of a log up to its last built segment; and the batches behind that.

        Args:
            partition: that has the log.
            topic: of it.
            chosen: the segments that are in it, in offset order.
            batches: in the order of their commits.
            endings: of transactions, by the offsets of their markers, ascending.
            known: aborted transactions that ended in gaps.
            gone: batches that nobody has.
        """
        tail = await read_tail_of(self._objects, chosen)
        self.report.unreadable += tail.unreadable
        built = BuiltLog(self._objects, chosen, tail)
        configs, now_ms = topic.configs or {}, self._now_ms()
        between, homeless = await place_in_gaps(batches, built, chosen, configs, now_ms, endings)
        placed = [*homeless, *(one for run in between for one in run.batches)]
        done = {(one.path, one.byte_start) for one in placed}
        others = [one for one in batches if (one.path, one.byte_start) not in done]
        left = [*await unbuilt(others, built, [*endings, *gone.all_offsets]), *homeless]
        rows = [*map(row_of, chosen), *(row for run in between for row in rows_of(run))]
        gaps = gaps_between(sorted(rows, key=_START))
        ended = ends_in(gaps, endings)
        inside = in_offset_order(between, ended)
        if inside:
            tail = await read_tail_of(self._objects, chosen, inside)
        seen = await aborted_between(self._objects, chosen, inside)
        aborted = merge_aborted([known, seen])
        rows += [await self._empty.add(partition, topic, gap, ended, aborted) for gap in gaps]
        part = BuiltPart(
            rows=sorted(rows, key=_START),
            end_offset=tail.end_offset,
            producers=tail.producers,
            aborted=merge_aborted([tail.aborted, aborted, *(one.aborted for one in chosen)]),
            lost=without_markers(gaps, ended),
            homeless=homeless,
        )
        return part, left
