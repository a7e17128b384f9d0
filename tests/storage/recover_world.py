"""Two brokers, a builder and a sweeper, whose log is recovered from nothing but their objects."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, cast
from uuid import UUID

from protocol.batch import TRANSACTIONAL_BIT, read_header
from protocol.control_batch import EndMarker, build_end_marker, read_end_marker
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.config import UpkeepConfig
from storage.metadata.port import TransactionUse
from storage.metadata.transactions import Producer, TransactionEnd, Verdict
from storage.recovery.recover import Recovery
from storage.recovery.recover_partition import RebuiltPartition
from storage.recovery.recover_postgres import EmptyDatabase
from storage.segment_entry import SegmentEntry
from storage.upkeep.builder import Builder
from storage.upkeep.segment_rows import read_rows
from storage.upkeep.sweeper import Sweeper
from tests.storage.builder_model import POLICY, START_MS
from tests.storage.recover_brokers import KeptIndex, LogBroker, SlowStore
from tests.support.appends import append
from tests.support.fakes.metadata import MemoryMetadata

PARTITIONS: Final = 3
PAUSES_S: Final = (0.001, 0.01, 0.1, 1.0, 5.0)


@dataclass(slots=True)
class Client:
    """A transactional producer. Attributes: sequences is what it wrote under its epoch."""

    producer: Producer
    is_open: bool = False
    sequences: dict[Partition, int] = field(default_factory=dict)


Content = dict[int, object]
"""By offset: the checksum of a batch, or what a marker says."""


class RecoverWorld:
    """One topic, led by two brokers in turn."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self._loop = asyncio.get_running_loop()
        self.metadata = MemoryMetadata(Random(seed), self.now_ms)
        self.objects = SlowStore(self.rng, self.now_ms)
        self.partitions: list[Partition] = []
        self.clients: list[Client] = []
        self._numbers = itertools.count(1)
        self._epoch = 1
        self._brokers: list[LogBroker] = []

    def now_ms(self) -> int:
        return START_MS + int(self._loop.time() * 1000)

    def _broker(self) -> LogBroker:
        return LogBroker(
            self.metadata,
            self.objects,
            now_ms=self.now_ms,
            writer_id=UUID(int=next(self._numbers)),
            flush_bytes=self.rng.choice((1, 300, 1 << 20)),
        )

    async def live(self, seconds: float) -> None:
        """Let things happen for so long; then end all transactions, and stop."""
        topic = await self.metadata.create_topic(
            POLICY.name, partition_count=PARTITIONS, replication_factor=1, configs={}
        )
        self.partitions = [Partition(topic.topic_id, index) for index in range(PARTITIONS)]
        self._brokers = [self._broker() for _ in range(2)]
        until_s = self._loop.time() + seconds
        transactions = [self._write_transactions(f"t{number}", until_s) for number in range(3)]
        await asyncio.gather(
            *transactions, self._write_others(until_s), self._keep_up(until_s), self._move(until_s)
        )
        for client in self.clients:
            await self._end(client)
        for broker in self._brokers:
            await broker.stop()

    async def truth(self, partition: Partition) -> Content:
        return await self._content(await self.metadata.segments_from(partition, 0, 10_000))

    async def recovered(self) -> dict[Partition, tuple[Content, RebuiltPartition]]:
        """Return what can be recovered of each partition."""
        kept = KeptIndex()
        recovery = Recovery(
            objects=self.objects,
            database=cast("EmptyDatabase", kept),
            now_ms=self.now_ms,
            dry_run=True,
        )
        async for _ in recovery.run():
            pass
        return {
            partition: (await self._content(rebuilt.rows), rebuilt)
            for partition, rebuilt in kept.partitions.items()
        }

    async def _content(self, rows: Sequence[SegmentEntry]) -> Content:
        content: Content = {}
        async with aclosing(read_rows(self.objects, rows)) as parts:
            async for part in parts:
                for batch in part.batches:
                    header = read_header(batch)
                    said = read_end_marker(batch) if header.is_control else header.crc
                    content[header.base_offset] = said
        return content

    # --- what happens

    async def _pauses(self, until_s: float) -> AsyncIterator[None]:
        while self._loop.time() < until_s:
            await asyncio.sleep(self.rng.choice(PAUSES_S) * self.rng.random())
            yield
            if self.rng.random() < 0.05:
                await asyncio.sleep(200 * self.rng.random())

    def _some_broker(self, partition: Partition) -> LogBroker:
        """Return the leader, most often."""
        if self.rng.random() < 0.1:
            return self.rng.choice(self._brokers)
        return self._brokers[(partition.index + self._epoch) % 2]

    async def _append(self, client: Client | None) -> None:
        partition = self.rng.choice(self.partitions)
        broker = self._some_broker(partition)
        records = [Record(offset_delta=at, value=b"v") for at in range(self.rng.randint(1, 3))]
        of_client: dict[str, Any] = {}
        identity: dict[str, int] = {}
        if client is not None:
            producer = client.producer
            of_client = {
                "transaction": TransactionUse.ADDS,
                "transactional_id": producer.transactional_id,
            }
            identity = {
                "attributes": TRANSACTIONAL_BIT,
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "base_sequence": client.sequences.get(partition, 0),
            }
        batch = memoryview(
            bytearray(build_batch(records, base_timestamp_ms=self.now_ms(), **identity))
        )
        log = broker.log.partition(partition)
        outcome = await append(broker.log, log, batch, leader_epoch=self._epoch, **of_client)
        if client is not None and outcome.refusal is None:
            client.is_open = True
            client.sequences[partition] = client.sequences.get(partition, 0) + len(records)

    async def _write_others(self, until_s: float) -> None:
        async for _ in self._pauses(until_s):
            await asyncio.gather(*(self._append(None) for _ in range(self.rng.randint(1, 4))))

    async def _write_transactions(self, name: str, until_s: float) -> None:
        begun = await self.metadata.init_producer(
            name,
            timeout_ms=10**8,
            expected=None,
            fresh_producer_id=await self.metadata.allocate_producer_ids(1),
        )
        assert begun.producer is not None
        client = Client(begun.producer)
        self.clients.append(client)
        async for _ in self._pauses(until_s):
            for _ in range(self.rng.randint(1, 3)):
                await self._append(client)
            if self.rng.random() < 0.5:
                await self._end(client)

    async def _end(self, client: Client) -> None:
        """End a client's transaction through any broker."""
        if not client.is_open:
            return
        said = EndMarker(
            producer_id=client.producer.producer_id,
            producer_epoch=client.producer.producer_epoch + 1,
            committed=self.rng.random() < 0.6,
            timestamp_ms=self.now_ms(),
        )
        marker = build_end_marker(said, leader_epoch=0)
        broker = self.rng.choice(self._brokers)
        ended = await self.metadata.end_transaction(
            TransactionEnd(
                producer=client.producer,
                committed=said.committed,
                bumps_epoch=True,
                marker=marker,
                marker_timestamp_ms=said.timestamp_ms,
            )
        )
        assert ended.verdict is Verdict.DONE
        assert ended.producer is not None
        client.producer, client.is_open = ended.producer, False
        client.sequences.clear()
        broker.log.append_markers(marker, ended.markers)

    async def _keep_up(self, until_s: float) -> None:
        policy = replace(POLICY, partition_count=PARTITIONS)
        config = UpkeepConfig(segment_rows=6, segment_bytes=600)
        builder = Builder(
            metadata=self.metadata,
            objects=self.objects,
            config=config,
            policy_of=lambda _: policy,
            clock=self._loop.time,
        )
        sweeper = Sweeper(metadata=self.metadata, objects=self.objects, config=config)
        while self._loop.time() < until_s:
            await asyncio.sleep(10)
            await builder.plan()
            while await builder.work_once():
                pass
            await sweeper.run()

    async def _move(self, until_s: float) -> None:
        """Change leaders, let a broker stop and another one begin, or the store be slow."""
        while self._loop.time() < until_s:
            await asyncio.sleep(60 * self.rng.random())
            match self.rng.randrange(4):
                case 0:
                    broker = self.rng.choice(self._brokers)
                    logs = [broker.log.partition(one) for one in self.partitions]
                    await broker.log.refresh(logs)
                case 1:
                    self.objects.put_s = self.rng.choice((0.05, 2.0))
                case change:
                    self._epoch += 1
                    if change == 2:
                        old, self._brokers[0] = self._brokers[0], self._broker()
                        await old.stop()
                    for broker in self._brokers:
                        broker.log.leaders_changed()
