"""A log whose index is in a real Postgres, and whose objects are in memory, to be damaged."""

import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import asyncpg

from protocol.batch import read_header
from protocol.compression import Codec
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.config import UpkeepConfig
from storage.fsck.fsck import Fsck
from storage.fsck.fsck_index import FsckIndex
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import BatchCommit
from storage.metadata.topics import Topic
from storage.objects.object_paths import uuid7, wal_path
from storage.objects.store_marker import MARKER, new_mark
from storage.postgres.postgres_connection import Connection
from storage.segment_entry import SegmentEntry
from storage.upkeep.builder import Builder
from storage.upkeep.compaction import Compactor
from storage.upkeep.policies import TopicPolicy
from storage.wal_index import NOT_APPENDED, WalEnding, WalIndex, WalPlaces, WalRun, encode_index
from tests.storage.builder_model import POLICY
from tests.support.fakes.objects import MemoryStore
from tests.support.patience import PATIENT
from tests.support.postgres import create_database

CONFIG: Final = PATIENT
FOR_EVER: Final[Mapping[str, str]] = MappingProxyType({"retention.ms": "-1"})
HOUR_MS: Final = 3_600_000
WRITER: Final = UUID(int=0x77)

_numbers = itertools.count()


@dataclass(slots=True)
class StoredLog:
    """A cluster without brokers.

    Attributes:
        topic: with two partitions.
        ahead_ms: how far the store's clock, and who asks for its age, are ahead.
        writer, leader_epoch: of who leads all partitions now.
        tells: whether the next object of a writer tells where its last one's batches are.
    """

    dsn: str
    metadata: PostgresMetadata
    objects: MemoryStore
    topic: Topic
    ahead_ms: int = 0
    writer: UUID = WRITER
    leader_epoch: int = 3
    sequences: Counter[UUID] = field(default_factory=Counter)
    ends: dict[Partition, int] = field(default_factory=dict)
    tells: bool = False
    untold: dict[UUID, list[WalPlaces]] = field(default_factory=dict)

    def partition(self, index: int = 0) -> Partition:
        return Partition(self.topic.topic_id, index)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def change_leader(self) -> None:
        """Let another broker lead; it does not know where partitions end."""
        self.leader_epoch += 1
        self.writer = UUID(int=self.leader_epoch)
        self.ends = dict.fromkeys((self.partition(0), self.partition(1)), -1)

    async def write(
        self,
        *values: bytes,
        index: int = 0,
        commit: bool = True,
        producer: tuple[int, int, int] = (-1, -1, -1),
    ) -> str:
        """Store an object with one batch for each value; return its path."""
        batches = []
        for number, value in enumerate(values):
            producer_id, producer_epoch, sequence = producer
            batches.append(
                build_batch(
                    [Record(offset_delta=0, value=value)],
                    base_timestamp_ms=1000 + next(_numbers),
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    base_sequence=sequence + number if sequence >= 0 else -1,
                )
            )
        return await self.store(batches, index=index, commit=commit)

    async def store(self, batches: Sequence[bytes], *, index: int = 0, commit: bool = True) -> str:
        """Store an object with these batches; return its path."""
        partition = self.partition(index)
        headers = [read_header(batch) for batch in batches]
        path = wal_path(uuid7(self.now_ms(), next(_numbers).to_bytes(10, "big")))
        run = WalRun(
            topic=0,
            partition=index,
            start=0,
            length=sum(len(batch) for batch in batches),
            record_count=sum(header.record_count for header in headers),
            expected_offset=self.ends.get(partition, 0),
            leader_epoch=self.leader_epoch,
            max_timestamp_ms=max(header.max_timestamp_ms for header in headers),
        )
        index_of = WalIndex(
            writer_id=self.writer,
            sequence=self.sequences[self.writer],
            written_ms=self.now_ms(),
            topics=((partition.topic_id, self.topic.name),),
            runs=(run,),
            places=tuple(self.untold.pop(self.writer, ())),
        )
        self.sequences[self.writer] += 1
        parts = [*batches, encode_index(index_of)]
        await self.objects.put(path, parts)
        if commit:
            await self.metadata.reserve_objects([path])
            await self._commit(path, partition, batches, sum(len(part) for part in parts))
        return path

    async def tell(self, *endings: WalEnding) -> None:
        """Store an object without batches, which tells what is untold; the topic's number is 0."""
        index = WalIndex(
            writer_id=self.writer,
            sequence=self.sequences[self.writer],
            written_ms=self.now_ms(),
            topics=((self.topic.topic_id, self.topic.name),),
            runs=(),
            places=tuple(self.untold.pop(self.writer, ())),
            endings=endings,
        )
        self.sequences[self.writer] += 1
        path = wal_path(uuid7(self.now_ms(), next(_numbers).to_bytes(10, "big")))
        await self.metadata.reserve_objects([path])
        await self.objects.put(path, [encode_index(index)])

    async def _commit(
        self, path: str, partition: Partition, batches: Sequence[bytes], size: int
    ) -> None:
        start, commits = 0, []
        for batch in batches:
            header = read_header(batch)
            commits.append(
                BatchCommit(
                    partition=partition,
                    start=start,
                    length=len(batch),
                    record_count=header.record_count,
                    max_timestamp_ms=header.max_timestamp_ms,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    leader_epoch=self.leader_epoch,
                )
            )
            start += len(batch)
        outcomes = await self.metadata.commit_object(path, size, commits)
        assert all(outcome.refusal is None for outcome in outcomes)
        if self.tells:
            offsets = [NOT_APPENDED if one.duplicate else one.base_offset for one in outcomes]
            sequence = self.sequences[self.writer] - 1
            places = (0, partition.index, sequence, offsets)
            self.untold.setdefault(self.writer, []).append(places)
        last = read_header(batches[-1])
        self.ends[partition] = outcomes[-1].base_offset + last.record_count

    def policy(self, **configs: Any) -> TopicPolicy:
        """Return the topic's, with some of it changed."""
        return replace(POLICY, name=self.topic.name, partition_count=2, **configs)

    async def build(
        self, index: int = 0, *, codec: Codec | None = None, configs: dict[str, str] | None = None
    ) -> SegmentEntry:
        """Build what is not built; return the row of the segment.

        Args:
            index: of the partition.
            codec: that batches are compressed with; None leaves them as they are.
            configs: of the topic, that segments tell; None: those that it was made with.
        """
        policy = self.policy(codec=codec, configs=configs or self.topic.configs)
        builder = Builder(
            metadata=self.metadata,
            objects=self.objects,
            config=UpkeepConfig(segment_bytes=300),  # of two rows; none is merged with another
            policy_of=lambda _: policy,
            clock=time.monotonic,
        )
        while True:
            result = await builder.build(self.partition(index))
            if result is None:
                break
        return [row for row in await self.rows(index) if row.index_length][-1]

    async def compact(self) -> None:
        """Compact partition 0, of which all that is compacted is built."""
        policy = self.policy(compact=True, min_cleanable_dirty_ratio=0.0)
        compactor = Compactor(
            metadata=self.metadata,
            objects=self.objects,
            config=UpkeepConfig(),
            policy_of=lambda _: policy,
            clock=time.monotonic,
        )
        await compactor.compact(self.partition())

    async def rows(self, index: int = 0) -> list[SegmentEntry]:
        return await self.metadata.segments_from(self.partition(index), 0, 10_000)

    async def sql(self, statement: str, *arguments: object) -> None:
        """Change the index behind everybody's back."""
        connection: Connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(statement, *arguments)
        finally:
            await connection.close()

    def content(self, path: str) -> bytes:
        return self.objects._objects[path]

    def spoil(self, path: str, content: bytes | None) -> None:
        """Change the bytes of an object, or remove it."""
        if content is None:
            del self.objects._objects[path]
        else:
            self.objects._objects[path] = content

    async def fsck(self, *, deep: bool = False) -> Fsck:
        """Check it; return what was found."""
        async with FsckIndex.open(self.dsn, CONFIG) as index:
            check = Fsck(
                index=index, metadata=self.metadata, objects=self.objects, now_ms=self.now_ms
            )
            async for _ in check.run(deep=deep):
                pass
            return check


@asynccontextmanager
async def stored_log(configs: Mapping[str, str] = FOR_EVER) -> AsyncIterator[StoredLog]:
    """Begin with an empty topic of these configs, and the store's mark."""
    dsn = await create_database()
    metadata = await PostgresMetadata.open(dsn, CONFIG)
    topic = await metadata.create_topic(
        "orders", partition_count=2, replication_factor=1, configs=dict(configs)
    )
    log = StoredLog(dsn, metadata, MemoryStore(), topic)
    log.objects._now_ms = log.now_ms
    await log.objects.put(MARKER, [new_mark(await metadata.cluster_id()).content()])
    try:
        yield log
    finally:
        await log.metadata.close()  # a test may have put another one in its place
