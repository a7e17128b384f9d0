"""Built segments for the offsets between rows that nobody has any more.

They keep the ends of transactions that writers tell of, and are empty else: all other offsets stay
as they were. The next recovery prefers whatever else has these offsets (storage/gap_segment.py).
"""

from collections.abc import Iterable, Mapping

from protocol.batch import set_base_offset
from protocol.control_batch import EndMarker, build_end_marker
from protocol.ids import Partition
from storage.aborted_transaction import AbortedTransaction
from storage.gap_segment import gap_path
from storage.metadata.topics import Topic
from storage.objects.port import ObjectStore
from storage.recovery.recover_between import Offsets
from storage.recovery.recover_partition import LOG_EPOCH
from storage.recovery.recover_postgres import EmptyDatabase
from storage.recovery.recover_scratch import Scratch
from storage.recovery.recover_topics import FoundTopic
from storage.segment_encoder import BuiltSegment, SegmentEncoder
from storage.segment_entry import SegmentEntry


class EmptySegments:
    """Adds them; those of a recovery that fails are never stored."""

    def __init__(self, objects: ObjectStore, database: EmptyDatabase, scratch: Scratch) -> None:
        self._objects = objects
        self._database = database
        self._scratch = scratch

    async def add(
        self,
        partition: Partition,
        topic: FoundTopic,
        gap: Offsets,
        endings: Mapping[int, EndMarker],
        aborted: Iterable[AbortedTransaction],
    ) -> SegmentEntry:
        """Make the segment of a gap; return its row.

        Args:
            partition: that has the gap.
            topic: that the segment describes.
            gap: its offsets.
            endings: of transactions, by the offsets of their markers, ascending.
            aborted: transactions; the segment tells of those that end in it.
        """
        first, last = gap
        built = _build(partition, topic, gap, endings, aborted)
        path = gap_path(topic.folder, partition.index, first, last)
        self._scratch.add_gap(path, b"".join(built.parts))
        self._scratch.add_object(path, built.size)
        self._scratch.set_object_ids(await self._database.add_objects([(path, built.size)]))
        return SegmentEntry(
            start_offset=first,
            end_offset=last,
            path=path,
            start=built.start,
            length=built.length,
            max_timestamp_ms=built.max_timestamp_ms,
            index_length=built.index_length,
        )

    async def store(self) -> None:
        """Store all that were added: when nothing else can fail any more but to keep their rows.

        Raises:
            ObjectStoreUnavailable: no answer.
        """
        for path, content in self._scratch.gaps():
            await self._objects.put(path, [content])


def _build(
    partition: Partition,
    topic: FoundTopic,
    gap: Offsets,
    endings: Mapping[int, EndMarker],
    aborted: Iterable[AbortedTransaction],
) -> BuiltSegment:
    first, last = gap
    described = Topic(
        topic_id=partition.topic_id,
        name=topic.name,
        partition_count=topic.partition_count,
        replication_factor=1,
        configs=topic.configs or {},
    )
    encoder = SegmentEncoder(
        topic_id=partition.topic_id,
        partition=partition.index,
        topic=described,
        start_offset=first,
    )
    for offset, marker in endings.items():
        if first <= offset <= last:
            batch = bytearray(build_end_marker(marker, leader_epoch=LOG_EPOCH))
            set_base_offset(batch, offset)
            encoder.add(batch)
    told = [one for one in aborted if first <= one.last_offset <= last]
    return encoder.finish(end_offset=last, aborted=told)
