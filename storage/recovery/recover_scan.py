"""Reads what a store's objects say of themselves (storage/segment.py, storage/wal_index.py).

Of a built segment its index is read, of a writer's object all of it: only the headers of batches
tell whether a producer has sent them twice. So is all of a segment that stands for a gap.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from protocol.batch import read_header
from protocol.control_batch import EndMarker, read_end_marker
from protocol.errors import ProtocolError
from protocol.ids import Partition
from storage import segment, wal_index
from storage.bad_answers import read_thrice
from storage.errors import BadObject, CorruptObject
from storage.fsck.index_tail import read_tail
from storage.objects.port import ObjectStore, StoredObject
from storage.recovery.recover_scratch import FoundSegment, Scratch
from storage.recovery.recover_topics import FoundTopic, ToldTopics
from storage.recovery.recover_upload import FoundRun, parse_upload
from storage.segment_index import SegmentIndex
from storage.wal_index import WalEnding, WalIndex

AT_ONCE: Final = 8  # of the writer's objects, each up to 8 MiB and some
BAD: Final = (BadObject, ProtocolError)
LONG_AGO_MS: Final = 0
OTHERS_PRODUCER_ID: Final = 1 << 53
"""From here on an id is another cluster's, or made up: our own begin below 2^52 (0018)."""

_FOLDER: Final = re.compile(r"(topics/[^/]+)/partitions/(\d+)/segments/[^/]+\.seg")


@dataclass(slots=True)
class Scanned:
    """What the objects of a store have told.

    Attributes:
        segments, uploads: objects that were read.
        repeated: uploads that were tried again, of which the store has both.
        unreadable: objects, or parts of them, that say nothing, and why.
        last_producer_id: the highest that this cluster may have given out.
    """

    topics: dict[UUID, FoundTopic] = field(default_factory=dict)
    segments: int = 0
    uploads: int = 0
    repeated: int = 0
    unreadable: list[str] = field(default_factory=list)
    last_producer_id: int = -1
    last_leader_epoch: int = -1


class Scan:
    """One pass over a store.

    Attributes:
        scanned: so far.
    """

    def __init__(self, objects: ObjectStore, scratch: Scratch) -> None:
        self.scanned = Scanned()
        self._objects = objects
        self._scratch = scratch
        self._told = ToldTopics()
        self._damaged: dict[str, StoredObject] = {}

    async def run(self) -> AsyncIterator[int]:
        """Read all objects; yield how many are done.

        Raises:
            ObjectStoreUnavailable: no answer.
        """
        done = 0
        segments, uploads = self._objects.list("topics/"), self._objects.list("wal/")
        for listing in (segments, uploads, self._damaged_uploads()):
            pending: set[asyncio.Task[None]] = set()
            try:
                async for stored in listing:
                    pending.add(asyncio.create_task(self._read(stored)))
                    if len(pending) >= AT_ONCE:
                        pending = await _some_done(pending)
                        done += AT_ONCE - len(pending)
                        yield done
                while pending:
                    before = len(pending)
                    pending = await _some_done(pending)
                    done += before - len(pending)
                    yield done
            finally:
                for task in pending:
                    task.cancel()
        self._told.add_to(self.scanned.topics)
        self._scratch.settle()

    async def _damaged_uploads(self) -> AsyncIterator[StoredObject]:
        """Yield those that were left, when all others are known: one may be a whole copy."""
        for _, stored in sorted(self._damaged.items()):
            yield stored

    async def _read(self, stored: StoredObject) -> None:
        """Read an object; one bad answer does not make it unreadable, which is final.

        What is unreadable has no row, and what has none is deleted some day.
        """

        async def read(is_last: bool) -> None:
            if stored.path.startswith("topics/"):
                await self._read_segment(stored)
            else:
                await self._read_upload(stored, is_last=is_last)

        try:
            await read_thrice(read, BAD)
        except BAD as error:
            self.scanned.unreadable.append(f"{stored.path}: {error}")

    async def _read_segment(self, stored: StoredObject) -> None:
        folder = _FOLDER.fullmatch(stored.path)
        if folder is None:
            raise CorruptObject("not the name of a segment")
        data = await read_tail(
            self._objects, stored, segment.FOOTER_BYTES, segment.parse_index_length
        )
        index = segment.parse_index(data)
        start = index.blocks[0].start
        found = FoundSegment(
            path=stored.path,
            size=stored.size,
            start_offset=index.start_offset,
            end_offset=index.end_offset,
            byte_start=start,
            byte_length=stored.size - len(data) - start,
            index_length=len(data),
            max_timestamp_ms=index.max_timestamp_ms,
            modified_ms=stored.modified_ms,
            aborted=index.aborted,
        )
        if index.blocks[-1].start + index.blocks[-1].length != start + found.byte_length:
            raise CorruptObject("its index is not of its batches")
        partition = Partition(index.topic_id, index.partition)
        if found.is_gap:
            await self._read_endings(partition, found, index)
        self._scratch.add_segment(partition, found)
        self.scanned.segments += 1
        self._know_producers(*(one.producer_id for one in index.aborted))
        # One that stands for a gap is newer than all else, and knows no more than what was there.
        told_ms = LONG_AGO_MS if found.is_gap else stored.modified_ms
        topic = self._topic(index.topic_id, told_ms, index.partition)
        topic.folder = folder[1]
        if topic.configs_ms <= told_ms:
            topic.configs_ms = told_ms
            topic.name, topic.configs = index.topic_name, dict(index.configs)
        topic.partition_count = max(topic.partition_count, index.partition_count)

    async def _read_endings(
        self, partition: Partition, found: FoundSegment, index: SegmentIndex
    ) -> None:
        """Take the ends of transactions from a gap: who told of them may be gone since."""
        data = await self._objects.get(found.path, found.byte_start, found.byte_length)
        view = memoryview(data)
        for block in index.blocks:
            start = block.start - found.byte_start
            for batch in segment.read_block(view[start : start + block.length], block).batches:
                header = read_header(batch)
                if header.is_control:
                    marker = read_end_marker(batch)
                    self._know_producers(marker.producer_id)
                    self._scratch.add_ending(partition, header.base_offset, marker)

    async def _read_upload(self, stored: StoredObject, *, is_last: bool) -> None:
        if stored.size < wal_index.FOOTER_BYTES:
            raise CorruptObject(f"{stored.size} bytes are too few")
        data = await self._objects.get(stored.path, 0, stored.size)
        upload = parse_upload(stored, data)
        index, writer = upload.index, upload.index.writer_id.hex
        if upload.damage and not is_last:
            raise CorruptObject(upload.damage[0])
        if upload.damage and stored.path not in self._damaged:
            self._damaged[stored.path] = stored
            return
        if not self._scratch.add_upload(
            writer, index.sequence, stored.path, stored.size, index.written_ms
        ):
            self.scanned.repeated += 1
            return
        self.scanned.uploads += 1
        self.scanned.unreadable += (f"{stored.path}, {damage}" for damage in upload.damage)
        for found in upload.runs:
            self._take_run(index, found, stored.modified_ms)
        self._told.take(index, stored.modified_ms)
        for topic, partition, sequence, base_offsets in index.places:
            told = Partition(index.topics[topic][0], partition)
            self._scratch.add_places(told, writer, sequence, base_offsets)
        for one in index.endings:
            self._know_producers(one.producer_id)
            ended = Partition(index.topics[one.topic][0], one.partition)
            self._scratch.add_ending(ended, one.offset, _marker_of(one))

    def _take_run(self, index: WalIndex, found: FoundRun, stored_ms: int) -> None:
        run = found.run
        topic_id, name = index.topics[run.topic]
        topic = self._topic(topic_id, stored_ms, run.partition)
        if topic.configs is None and name:
            topic.name = name
        self.scanned.last_leader_epoch = max(self.scanned.last_leader_epoch, run.leader_epoch)
        self._know_producers(*(one.producer_id for one in found.batches))
        self._scratch.add_batches(Partition(topic_id, run.partition), found.batches)

    def _topic(self, topic_id: UUID, seen_ms: int, partition: int) -> FoundTopic:
        topic = self.scanned.topics.setdefault(topic_id, FoundTopic())
        topic.seen_ms = max(topic.seen_ms, seen_ms)
        topic.partition_count = max(topic.partition_count, partition + 1)
        return topic

    def _know_producers(self, *producer_ids: int) -> None:
        own = (one for one in producer_ids if one < OTHERS_PRODUCER_ID)
        self.scanned.last_producer_id = max(self.scanned.last_producer_id, *own, -1)


def _marker_of(one: WalEnding) -> EndMarker:
    return EndMarker(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        committed=one.committed,
        timestamp_ms=one.timestamp_ms,
    )


async def _some_done(pending: "set[asyncio.Task[None]]") -> "set[asyncio.Task[None]]":
    """Wait for one or more; return the others. What went wrong in one is raised."""
    done, rest = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return rest
