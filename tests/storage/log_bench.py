"""A log over stores in memory, with transactions, restarts, and other brokers that end them."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from prometheus_client import CollectorRegistry

from protocol.batch import TRANSACTIONAL_BIT
from protocol.control_batch import EndMarker, build_end_marker
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.config import WriterConfig
from storage.log import Log
from storage.metadata.port import BatchOutcome, TransactionUse
from storage.metadata.transactions import Producer, TransactionEnd, Verdict
from storage.metrics import StorageMetrics
from storage.objects.object_paths import ReservedPaths
from storage.partition_log import PartitionLog
from storage.partition_offsets import PartitionOffsets
from storage.reading.block_cache import BlockCache
from storage.tail import TailCache
from storage.writer import Writer
from tests.support.appends import append
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
WRITER_ID = UUID(int=77)


class CountingStore(MemoryStore):
    """Attributes: gets is how many ranges were read."""

    def __init__(self) -> None:
        super().__init__()
        self.gets = 0

    async def get(self, path: str, start: int, length: int) -> bytearray:
        self.gets += 1
        return await super().get(path, start, length)


@dataclass(slots=True)
class Transactional:
    """A producer of KIP-890: each end gives it a new epoch.

    Attributes:
        sequences: how many records it wrote to each partition under its epoch.
    """

    producer: Producer
    sequences: dict[Partition, int] = field(default_factory=dict)


class LogBench:
    """One broker's log. Attributes: log is replaced by `restart`."""

    def __init__(self, *, tail_bytes: int = 1 << 20) -> None:
        self.metadata = MemoryMetadata(Random(0))
        self.objects = CountingStore()
        self._tail_bytes = tail_bytes
        self._ids = itertools.count()
        self._start()

    def _start(self) -> None:
        metrics = StorageMetrics(CollectorRegistry())
        self._paths = ReservedPaths(self.metadata, lambda: UUID(int=next(self._ids)))
        self.writer = Writer(
            objects=self.objects,
            metadata=self.metadata,
            paths=self._paths,
            tail=TailCache(self._tail_bytes),
            config=WriterConfig(),
            metrics=metrics,
            clock=time.monotonic,
            now_ms=lambda: NOW_MS,
            writer_id=WRITER_ID,
            name_of=lambda _: "t",
        )
        self._blocks = BlockCache(
            self.objects, max_bytes=1 << 20, metrics=metrics, clock=time.monotonic
        )
        self.log = Log(
            metadata=self.metadata,
            writer=self.writer,
            blocks=self._blocks,
            metrics=metrics,
        )
        self._run = asyncio.create_task(self.writer.run())

    async def stop(self) -> None:
        self._run.cancel()
        await asyncio.wait([self._run])
        await self._paths.close()
        await self._blocks.close()

    async def restart(self) -> None:
        """Begin with nothing in memory."""
        await self.stop()
        self._start()

    async def create_partitions(self, count: int = 1) -> list[Partition]:
        topic = await self.metadata.create_topic(
            "t", partition_count=count, replication_factor=1, configs={}
        )
        return [Partition(topic.topic_id, index) for index in range(count)]

    async def known(self, partition: Partition) -> PartitionLog:
        """Return a partition's log as fetches see it: never without its offsets."""
        log = self.log.partition(partition)
        if not log.is_known:
            await self.log.refresh([log])
        return log

    async def producer(self, name: str) -> Transactional:
        outcome = await self.metadata.init_producer(
            name,
            timeout_ms=HOUR_MS,
            expected=None,
            fresh_producer_id=await self.metadata.allocate_producer_ids(1),
        )
        assert outcome.producer is not None
        return Transactional(outcome.producer)

    def append(
        self,
        partition: Partition,
        values: list[bytes],
        who: Transactional | None = None,
        *,
        codec: int = 0,
        use: TransactionUse = TransactionUse.ADDS,
    ) -> asyncio.Future[BatchOutcome]:
        """Append a batch, of a transaction if it is a producer's."""
        identity: dict[str, int] = {}
        if who is not None:
            sequence = who.sequences.get(partition, 0)
            who.sequences[partition] = sequence + len(values)
            identity = {
                "attributes": codec | TRANSACTIONAL_BIT,
                "producer_id": who.producer.producer_id,
                "producer_epoch": who.producer.producer_epoch,
                "base_sequence": sequence,
            }
        records = [Record(offset_delta=at, value=value) for at, value in enumerate(values)]
        batch = memoryview(bytearray(build_batch(records, **({"attributes": codec} | identity))))
        use = TransactionUse.NONE if who is None else use
        return append(
            self.log,
            self.log.partition(partition),
            batch,
            transaction=use,
            transactional_id=None if who is None else who.producer.transactional_id,
        )

    async def end(self, who: Transactional, *, committed: bool, elsewhere: bool = False) -> None:
        """End the open transaction, here, or by another broker, of which this one hears later."""
        marker, markers = await self.end_unheard(who, committed=committed)
        if not elsewhere:
            self.log.append_markers(marker, markers)

    async def end_unheard(
        self, who: Transactional, *, committed: bool
    ) -> tuple[bytes, Mapping[Partition, PartitionOffsets]]:
        """End the open transaction; return what its log may hear of."""
        said = EndMarker(
            producer_id=who.producer.producer_id,
            producer_epoch=who.producer.producer_epoch + 1,
            committed=committed,
            timestamp_ms=0,
        )
        marker = build_end_marker(said, leader_epoch=0)
        outcome = await self.metadata.end_transaction(
            TransactionEnd(
                producer=who.producer,
                committed=committed,
                bumps_epoch=True,
                marker=marker,
                marker_timestamp_ms=0,
            )
        )
        assert outcome.verdict is Verdict.DONE
        assert outcome.producer is not None
        who.producer = outcome.producer
        who.sequences.clear()
        return marker, outcome.markers


@asynccontextmanager
async def running_log(*, tail_bytes: int = 1 << 20) -> AsyncIterator[LogBench]:
    """Run a log for the length of a block."""
    bench = LogBench(tail_bytes=tail_bytes)
    try:
        yield bench
    finally:
        await bench.stop()
