"""A log in memory with a real writer, a builder, and a model of what readers shall get."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from random import Random
from uuid import UUID

from prometheus_client import CollectorRegistry

from protocol.batch import (
    TRANSACTIONAL_BIT,
    read_header,
    set_base_offset,
)
from protocol.compression import Codec
from protocol.control_batch import EndMarker, build_end_marker
from protocol.ids import Partition
from protocol.records import build_batch
from storage.config import UpkeepConfig, WriterConfig
from storage.metadata.port import MetadataStore, TransactionUse
from storage.metadata.transactions import TransactionEnd, Verdict
from storage.metrics import StorageMetrics
from storage.objects.object_paths import ReservedPaths
from storage.objects.port import ObjectStore
from storage.partition_log import PartitionLog
from storage.reading.block_cache import BlockCache
from storage.reading.read_planner import ColdRead
from storage.reading.reader import Reader, Records
from storage.segment_entry import SegmentEntry
from storage.tail import TailCache
from storage.upkeep.builder import Builder
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.segment_rows import RowPart, read_rows
from storage.upkeep.sweeper import Sweeper
from storage.writer import Writer
from tests.storage.builder_model import (
    HOUR_MS,
    POLICY,
    START_MS,
    Transactional,
    Written,
    said,
    two_records,
)
from tests.support.appends import append
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore


class World:
    """One topic; its first partition is written to unless another is named.

    Attributes:
        model: what each partition has, from offset 0 on.
        policy: of the topic; None once it is gone.
        lost: paths of objects that nobody can read.
        now_ms: the database's clock; `clock` is the builder's, in seconds.
    """

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.objects = MemoryStore()
        self.metadata = MemoryMetadata(Random(1), lambda: self.now_ms)
        self.policy: TopicPolicy | None = POLICY
        self.config = UpkeepConfig()
        self.model: dict[Partition, list[Written]] = {}
        self.lost: set[str] = set()
        self.aborted: set[tuple[int, int]] = set()  # first offset, marker
        self._producers: dict[str, Transactional] = {}
        self._logs: list[PartitionLog] = []
        ids = itertools.count()
        self._paths = ReservedPaths(self.metadata, lambda: UUID(int=next(ids)), self.clock)
        metrics = StorageMetrics(CollectorRegistry())
        self._blocks = BlockCache(
            self.objects, max_bytes=1 << 20, metrics=metrics, clock=self.clock
        )
        self._reader = Reader(self.metadata, self._blocks, metrics)
        self._writer = Writer(
            objects=self.objects,
            metadata=self.metadata,
            paths=self._paths,
            tail=TailCache(1 << 20),
            config=WriterConfig(),
            metrics=metrics,
            clock=self.clock,
            now_ms=lambda: self.now_ms,
            writer_id=UUID(int=77),
            name_of=lambda _: POLICY.name,
        )

    def clock(self) -> float:
        return self.now_ms / 1000

    @property
    def partition(self) -> Partition:
        return self._logs[0].partition

    @property
    def partitions(self) -> list[Partition]:
        return [log.partition for log in self._logs]

    def builder(
        self, *, metadata: MetadataStore | None = None, objects: ObjectStore | None = None
    ) -> Builder:
        """Return a builder of a process of its own."""
        return Builder(
            metadata=metadata or self.metadata,
            objects=objects or self.objects,
            config=self.config,
            policy_of=lambda topic_id: self.policy if topic_id == self.partition.topic_id else None,
            clock=self.clock,
        )

    async def produce(self, *values: bytes, codec: Codec = Codec.NONE, index: int = 0) -> None:
        """Write a batch of two records for each value, all in one object."""
        log = self._logs[index]
        batches = [
            bytearray(
                build_batch(two_records(value), attributes=codec, base_timestamp_ms=self.now_ms)
            )
            for value in values
        ]
        outcomes = [append(self._writer, log, memoryview(data)) for data in batches]
        for data, outcome in zip(batches, outcomes, strict=True):
            self._keep(log.partition, (await outcome).base_offset, data)

    async def produce_in_transaction(self, name: str, value: bytes) -> None:
        """Write a batch of two records in the transaction of a producer; begin it if need be."""
        if name not in self._producers:
            producer_id = await self.metadata.allocate_producer_ids(1)
            made = await self.metadata.init_producer(
                name, timeout_ms=HOUR_MS, expected=None, fresh_producer_id=producer_id
            )
            assert made.producer is not None
            self._producers[name] = Transactional(made.producer)
        transaction = self._producers[name]
        data = bytearray(
            build_batch(
                two_records(value),
                attributes=TRANSACTIONAL_BIT,
                base_timestamp_ms=self.now_ms,
                producer_id=transaction.producer.producer_id,
                producer_epoch=transaction.producer.producer_epoch,
                base_sequence=transaction.sequence,
            )
        )
        outcome = await append(
            self._writer,
            self._logs[0],
            memoryview(data),
            transaction=TransactionUse.ADDS,
            transactional_id=name,
        )
        assert outcome.refusal is None
        transaction.sequence += 2
        if transaction.first_offset < 0:
            transaction.first_offset = outcome.base_offset
        self._keep(self.partition, outcome.base_offset, data)

    async def end_transaction(self, name: str, *, committed: bool) -> None:
        """End a producer's transaction, if it has one that is open."""
        transaction = self._producers.get(name)
        if transaction is None or transaction.first_offset < 0:
            return
        producer = transaction.producer
        marker = build_end_marker(
            EndMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=committed,
                timestamp_ms=self.now_ms,
            ),
            leader_epoch=0,
        )
        end = TransactionEnd(
            producer=producer,
            committed=committed,
            bumps_epoch=False,
            marker=marker,
            marker_timestamp_ms=self.now_ms,
        )
        outcome = await self.metadata.end_transaction(end)
        assert outcome.verdict is Verdict.DONE
        offset = outcome.markers[self.partition].high_watermark - 1
        self._keep(self.partition, offset, bytearray(marker))
        if not committed:
            self.aborted.add((transaction.first_offset, offset))
        transaction.first_offset = -1

    async def rows(self, partition: Partition | None = None) -> list[SegmentEntry]:
        """Return all rows that can be read, which tile what they have to."""
        partition = partition or self.partition
        offsets = (await self.metadata.partition_offsets([partition]))[partition]
        rows = await self.metadata.segments_from(partition, offsets.log_start_offset, 10_000)
        if rows:
            assert rows[0].start_offset <= offsets.log_start_offset
            assert rows[-1].end_offset == offsets.high_watermark - 1
        else:
            assert offsets.log_start_offset == offsets.high_watermark
        assert all(one.end_offset + 1 == two.start_offset for one, two in pairwise(rows))
        built = [bool(row.index_length) for row in rows if row.path not in self.lost]
        assert built == sorted(built, reverse=True)  # what is built comes first
        return rows

    async def parts(self, partition: Partition | None = None) -> list[RowPart]:
        async with aclosing(read_rows(self.objects, await self.rows(partition))) as parts:
            return [part async for part in parts]

    async def check(self) -> None:
        """Assert that all reads as the model has it, and that indexes tell what was aborted."""
        for partition, model in self.model.items():
            offsets = (await self.metadata.partition_offsets([partition]))[partition]
            parts = await self.parts(partition)
            read = [said(batch) for part in parts for batch in part.batches]
            start = parts[0].entry.start_offset if parts else offsets.high_watermark
            assert read == [said(each.data) for each in model if each.first_offset >= start]
            for index in {id(part.index): part.index for part in parts if part.index}.values():
                assert {(each.first_offset, each.last_offset) for each in index.aborted} >= {
                    (first, marker)
                    for first, marker in self.aborted
                    if index.start_offset <= marker <= index.end_offset
                    and marker >= offsets.log_start_offset
                }
            await self._check_reads(partition, offsets.log_start_offset)

    async def _check_reads(self, partition: Partition, log_start_offset: int) -> None:
        """Assert that who reads at any offset gets the batch that has it."""
        log = next(log for log in self._logs if log.partition == partition)
        expected = [
            (offset, each)
            for each in self.model[partition]
            for offset in range(each.first_offset, each.last_offset + 1)
            if offset >= log_start_offset
        ]
        reads = [ColdRead(log, offset, max_bytes=1) for offset, _ in expected]
        for answer, (_, written) in zip(
            await self._reader.read(reads) if reads else (), expected, strict=True
        ):
            assert isinstance(answer, Records), answer
            assert [said(batch) for batch in answer.batches] == [said(written.data)]

    async def sweep(self) -> None:
        """Let two hours pass, and remove what nobody needs."""
        self.now_ms += 2 * HOUR_MS
        while await self.metadata.purge(1000):
            pass
        sweeper = Sweeper(metadata=self.metadata, objects=self.objects, config=self.config)
        await sweeper.run()
        self.now_ms += HOUR_MS  # bytes go later than the rows that named them
        await sweeper.run()

    async def stored(self) -> set[str]:
        return {found.path async for found in self.objects.list("")}

    async def named(self) -> set[str]:
        """Return the objects that rows name."""
        rows = [row for log in self._logs for row in await self.rows(log.partition)]
        return {row.path for row in rows if row.inline is None}

    def _keep(self, partition: Partition, offset: int, data: bytearray) -> None:
        set_base_offset(data, offset)
        last = offset + read_header(data).last_offset_delta
        self.model[partition].append(Written(offset, last, bytes(data)))

    @classmethod
    @asynccontextmanager
    async def open(cls, partition_count: int = 1) -> AsyncIterator["World"]:
        """Begin with an empty topic."""
        world = cls()
        topic = await world.metadata.create_topic(
            POLICY.name, partition_count=partition_count, replication_factor=1, configs={}
        )
        partitions = [Partition(topic.topic_id, index) for index in range(partition_count)]
        world._logs = [PartitionLog(partition) for partition in partitions]
        world.model = {partition: [] for partition in partitions}
        running = asyncio.create_task(world._writer.run())
        try:
            yield world
        finally:
            await world._writer.close(5.0)
            running.cancel()
            await asyncio.wait([running])
            await world._paths.close()
            await world._blocks.close()
