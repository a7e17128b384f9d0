"""Rebuilds the index of a lost Postgres from the objects of a store (`streamctl recover`).

    scan      every object says what it has; that is noted in a temporary file   recover_scan
    choose    built segments that tile a partition                               recover_segments
    order     the writers' batches as they were committed                        recover_order
    fill      gaps between them with the writers' batches that belong there      recover_gaps
    compare   which of the writers' other batches are in them                    recover_unbuilt
    place     those that are not behind them                                     recover_placement
    write     rows, producers and aborted transactions of a partition            recover_partition

Memory is bounded by the largest partition. Nothing is there before all of it is.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from protocol.ids import Partition
from storage.aborted_ranges import merge_aborted
from storage.fsck.fsck import Progress
from storage.metadata.topics import Topic
from storage.objects.port import ObjectStore
from storage.objects.store_marker import read_marker
from storage.recovery.recover_gaps import offsets_lost, place_in_gaps
from storage.recovery.recover_order import in_commit_order, with_places
from storage.recovery.recover_partition import PartitionBuilder, RebuiltPartition, row_of, rows_of
from storage.recovery.recover_placement import place, without_repeated
from storage.recovery.recover_postgres import EmptyDatabase
from storage.recovery.recover_producers import Producers
from storage.recovery.recover_report import FOREVER_NOTE, RecoveryReport, TopicReport
from storage.recovery.recover_runs import PlacedRun
from storage.recovery.recover_scan import FoundTopic, Scan
from storage.recovery.recover_scratch import FoundBatch, FoundSegment, Scratch
from storage.recovery.recover_segments import choose_segments, gaps_between
from storage.recovery.recover_tail import BuiltTail, read_tail_of
from storage.recovery.recover_unbuilt import BuiltLog, unbuilt
from storage.segment_builder import SegmentBuilder
from storage.segment_entry import SegmentEntry
from storage.upkeep.policies import UNLIMITED

OBJECTS_AT_ONCE: Final = 10_000
PRODUCER_ID_MARGIN: Final = 1_000_000
"""Producers whose records are all built long ago are not met: new ones get ids far above."""

GENERATION_MARGIN: Final = 1_000
"""Clients take no leader epoch that is older than one they know (KIP-320)."""


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
        self._dry_run = dry_run
        self._scratch = Scratch()

    async def run(self) -> AsyncIterator[Progress]:
        """Recover; yield how far it has come.

        Raises:
            CorruptObject: the store's mark of a cluster cannot be read.
            MetadataUnavailable, ObjectStoreUnavailable: no answer.
            ObjectMissing: somebody has removed an object since it was listed.
        """
        try:
            scan = Scan(self._objects, self._scratch)
            async for done in scan.run():
                yield Progress(step="objects", done=done, total=0)
            await self._begin(scan)
            topics = self._topics(scan)
            for topic in topics.values():
                if topic.configs is None:  # nobody knows how long its records were to be kept
                    topic.configs = {"retention.ms": str(UNLIMITED)}
            await self._database.add_topics(topics.items())
            for number, (topic_id, topic) in enumerate(topics.items(), 1):
                await self._recover_topic(topic_id, topic)
                yield Progress(step="topics", done=number, total=len(topics))
            self.report.unneeded = await self._database.finish()
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
        for page in self._scratch.objects(OBJECTS_AT_ONCE):
            self._scratch.set_object_ids(await self._database.add_objects(page))
        await self._database.add_folders(
            (topic.folder, topic_id) for topic_id, topic in scanned.topics.items() if topic.folder
        )

    def _topics(self, scan: Scan) -> dict[UUID, FoundTopic]:
        """Return the topics that are live: of those of one name, the one that was written last."""
        by_name: dict[str, UUID] = {}
        topics = scan.scanned.topics
        for topic_id in sorted(topics, key=lambda topic_id: topics[topic_id].seen_ms):
            name = topics[topic_id].name
            if not name:
                self.report.left_out.append(f"{topic_id}: no object tells its name; it was deleted")
                continue
            if name in by_name:
                old = by_name[name]
                self.report.left_out.append(f"{old}: deleted, and {name} made again")
            by_name[name] = topic_id
        return {topic_id: topics[topic_id] for _, topic_id in sorted(by_name.items())}

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
        chosen = choose_segments(self._scratch.segments(partition))
        found, places = self._scratch.batches(partition), self._scratch.places(partition)
        batches = in_commit_order(with_places(found, places))
        between: list[PlacedRun] = []
        homeless: list[FoundBatch] = []
        tail: BuiltTail | None = None
        if chosen:
            tail = await read_tail_of(self._objects, chosen)
            built = BuiltLog(self._objects, chosen, tail)
            between, homeless = await place_in_gaps(
                batches, built, chosen, topic.configs or {}, self._now_ms()
            )
            placed = [*homeless, *(one for run in between for one in run.batches)]
            done = {(one.path, one.byte_start) for one in placed}
            others = [one for one in batches if (one.path, one.byte_start) not in done]
            batches = [*await unbuilt(others, built), *homeless]
            self.report.unreadable += tail.unreadable
            if between:
                tail = await read_tail_of(self._objects, chosen, between)
        producers = tail.producers if tail is not None else Producers()
        rows, gaps = await self._without_gaps(partition, topic, chosen, between)
        kept = without_repeated(batches, producers)
        self.report.left_out += (
            f"{topic.name}: {one.path}, of producer {one.producer_id} that went on: no place fits"
            for one in homeless
            if one not in kept
        )
        floor = tail.end_offset if tail is not None else None
        endings = self._scratch.endings(partition)
        endings = {offset: one for offset, one in endings.items() if offset >= (floor or 0)}
        runs = place(kept, floor, endings)
        start = rows[0].start_offset if rows else runs[0].offset if runs else 0
        builder = PartitionBuilder(
            rows,
            producers,
            endings if rows or runs else {},
            log_start_offset=start,
            now_ms=self._now_ms(),
        )
        for run in runs:
            builder.add(run)
        aborted = [one.aborted for one in chosen]
        rebuilt = builder.finish(merge_aborted([*aborted, tail.aborted if tail else ()]))
        configs = topic.configs if topic.configs_ms >= 0 else None
        rebuilt.lost[:0] = offsets_lost(gaps, start, chosen, configs)
        return rebuilt

    async def _without_gaps(
        self,
        partition: Partition,
        topic: FoundTopic,
        chosen: Sequence[FoundSegment],
        between: Iterable[PlacedRun],
    ) -> tuple[list[SegmentEntry], list[tuple[int, int]]]:
        """Return the rows of segments, of what lies between them, and of empty ones for the rest.

        And the offsets (inclusive) that those have.
        """
        described = Topic(
            topic_id=partition.topic_id,
            name=topic.name,
            partition_count=topic.partition_count,
            replication_factor=1,
            configs=topic.configs or {},
        )
        rows = [*map(row_of, chosen), *(row for run in between for row in rows_of(run))]
        rows.sort(key=lambda row: row.start_offset)
        gaps = gaps_between(rows)
        for first, last in gaps:
            builder = SegmentBuilder(
                topic_id=partition.topic_id,
                partition=partition.index,
                topic=described,
                start_offset=first,
            )
            built = builder.finish(end_offset=last)
            folder = f"{topic.folder}/partitions/{partition.index}/segments"
            path = f"{folder}/{first:08d}-{last:08d}.{os.urandom(4).hex()}.seg"
            if not self._dry_run:
                await self._objects.put(path, built.parts)
            self._scratch.add_object(path, built.size)
            self._scratch.set_object_ids(await self._database.add_objects([(path, built.size)]))
            rows.append(
                SegmentEntry(
                    start_offset=first,
                    end_offset=last,
                    path=path,
                    start=built.start,
                    length=built.length,
                    max_timestamp_ms=built.max_timestamp_ms,
                    index_length=built.index_length,
                )
            )
        return sorted(rows, key=lambda row: row.start_offset), gaps
