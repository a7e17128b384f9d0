"""A compacted log in memory: who writes to it, who reads it, and what has to be there."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

import crc32c

from protocol.batch import TRANSACTIONAL_BIT, read_header
from protocol.compression import Codec
from protocol.control_batch import EndMarker, build_end_marker
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.config import UpkeepConfig
from storage.metadata.port import BatchCommit, MetadataStore, TransactionUse
from storage.metadata.transactions import Producer, TransactionEnd, Verdict
from storage.objects.port import ObjectStore
from storage.upkeep.builder import Builder
from storage.upkeep.compaction import Compactor
from storage.upkeep.policies import TopicPolicy
from tests.storage.compacted_log import CompactedLog, Written
from tests.storage.segments_made import POLICY as SEGMENTS_POLICY
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore

START_MS = 1_700_000_000_000
POLICY = replace(
    SEGMENTS_POLICY,
    delete_retention_ms=1_000,
    min_compaction_lag_ms=0,
    min_cleanable_dirty_ratio=0.0,
)


@dataclass(slots=True)
class Transaction:
    """An open one: what it wrote."""

    producer: Producer
    sequence: int = 0
    records: list[Written] = field(default_factory=list)


class World(CompactedLog):
    """One partition.

    Attributes:
        committed: every record that readers of committed records may ever see, by offset.
        deleted_ms: when each tombstone was written, by offset.
    """

    def __init__(self, policy: TopicPolicy = POLICY, *, key_map_bytes: int = 1 << 20) -> None:
        self.now_ms = START_MS
        self.policy: TopicPolicy | None = policy
        self.config = UpkeepConfig(segment_bytes=2_000, key_map_bytes=key_map_bytes)
        self.objects = MemoryStore()
        self.metadata = MemoryMetadata(Random(1), lambda: self.now_ms)
        self.committed: dict[int, Written] = {}
        self.deleted_ms: dict[int, int] = {}
        self._transactions: dict[str, Transaction] = {}
        self._producers: dict[str, Producer] = {}
        self._sequences: dict[str, int] = {}
        self._uploads = 0

    async def open(self) -> "World":
        topic = await self.metadata.create_topic(
            "users", partition_count=1, replication_factor=1, configs={}
        )
        self.partition = Partition(topic.topic_id, 0)
        return self

    # writers

    async def produce(
        self,
        records: Sequence[tuple[bytes | None, bytes | None]],
        *,
        codec: int = 0,
        timestamp_ms: int | None = None,
        attributes: int = 0,
    ) -> int:
        """Write a batch; return its base offset."""
        made = _records(records)
        at_ms = self.now_ms if timestamp_ms is None else timestamp_ms
        data = build_batch(made, attributes=codec | attributes, base_timestamp_ms=at_ms)
        base_offset = await self._commit(data, len(made))
        self._note(_written(made, base_offset, at_ms))
        return base_offset

    async def produce_bytes(self, data: bytes) -> int:
        """Write whatever it is; no record of it is expected anywhere."""
        return await self._commit(data, read_header(data).last_offset_delta + 1)

    async def produce_in_transaction(
        self, name: str, records: Sequence[tuple[bytes | None, bytes | None]], *, codec: int = 0
    ) -> int:
        """Write a batch in the open transaction of a producer; begin it if need be."""
        if name not in self._producers:
            producer_id = await self.metadata.allocate_producer_ids(1)
            made = await self.metadata.init_producer(
                name, timeout_ms=1 << 40, expected=None, fresh_producer_id=producer_id
            )
            assert made.producer is not None
            self._producers[name] = made.producer
        producer = self._producers[name]
        transaction = self._transactions.setdefault(name, Transaction(producer))
        made_records = _records(records)
        data = build_batch(
            made_records,
            attributes=TRANSACTIONAL_BIT | codec,
            base_timestamp_ms=self.now_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=transaction.sequence,
        )
        base_offset = await self._commit(data, len(made_records), name)
        transaction.sequence += len(made_records)
        transaction.records += _written(made_records, base_offset, self.now_ms)
        return base_offset

    async def end(self, name: str, *, committed: bool) -> int | None:
        """End the open transaction of a producer, if there is one; return the marker's offset."""
        transaction = self._transactions.pop(name, None)
        if transaction is None:
            return None
        producer = transaction.producer
        marker = EndMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch + 1,
            committed=committed,
            timestamp_ms=self.now_ms,
        )
        outcome = await self.metadata.end_transaction(
            TransactionEnd(
                producer=producer,
                committed=committed,
                bumps_epoch=True,
                marker=build_end_marker(marker, leader_epoch=0),
                marker_timestamp_ms=self.now_ms,
            )
        )
        assert outcome.verdict is Verdict.DONE
        assert outcome.producer is not None
        self._producers[name] = outcome.producer
        if committed:
            self._note(transaction.records)
        return outcome.markers[self.partition].high_watermark - 1

    # background work

    async def build(self) -> None:
        """Build all that there is."""
        builder = self.builder()
        while await builder.build(self.partition):
            pass

    def builder(self) -> Builder:
        return Builder(
            metadata=self.metadata,
            objects=self.objects,
            config=self.config,
            policy_of=self.policy_of,
            clock=self.clock,
        )

    def compactor(
        self, *, metadata: MetadataStore | None = None, objects: ObjectStore | None = None
    ) -> Compactor:
        """Return a compactor of a process of its own."""
        return Compactor(
            metadata=metadata or self.metadata,
            objects=objects or self.objects,
            config=self.config,
            policy_of=self.policy_of,
            clock=self.clock,
        )

    def set_segment_bytes(self, segment_bytes: int) -> None:
        """Cut segments of about that size from now on."""
        self.config = replace(self.config, segment_bytes=segment_bytes)

    async def compact(self) -> int:
        return await self.compactor().compact(self.partition)

    def policy_of(self, topic_id: UUID) -> TopicPolicy | None:
        return self.policy if topic_id == self.partition.topic_id else None

    def clock(self) -> float:
        return self.now_ms / 1000

    async def _commit(self, data: bytes, records: int, name: str | None = None) -> int:
        self._uploads += 1
        path = f"wal/{self._uploads}"
        header = read_header(data)
        await self.metadata.reserve_objects([path])
        await self.objects.put(path, [data])
        batch = BatchCommit(
            partition=self.partition,
            start=0,
            length=len(data),
            record_count=records,
            max_timestamp_ms=header.max_timestamp_ms,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transaction=TransactionUse.NONE if name is None else TransactionUse.ADDS,
            transactional_id=name,
        )
        (outcome,) = await self.metadata.commit_object(path, len(data), [batch])
        assert outcome.refusal is None
        return outcome.base_offset

    def _note(self, records: Sequence[Written]) -> None:
        for one in records:
            self.committed[one.offset] = one
            if one.value is None:
                self.deleted_ms[one.offset] = self.now_ms


def uncompressed_garbage() -> bytes:
    """Return an intact batch that says that its payload is compressed, which it is not."""
    batch = bytearray(build_batch([Record(offset_delta=0, key=b"a", value=b"?")]))
    batch[22] |= Codec.ZSTD
    batch[17:21] = crc32c.crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return bytes(batch)


def _records(pairs: Sequence[tuple[bytes | None, bytes | None]]) -> list[Record]:
    return [
        Record(
            offset_delta=at,
            timestamp_delta_ms=at * 100 % 300,
            key=key,
            value=value,
            headers=(("at", b"%d" % at),) if at % 2 else (),
        )
        for at, (key, value) in enumerate(pairs)
    ]


def _written(records: Sequence[Record], base_offset: int, timestamp_ms: int) -> list[Written]:
    return [
        Written(
            base_offset + one.offset_delta,
            timestamp_ms + one.timestamp_delta_ms,
            one.key,
            one.value,
            one.headers,
        )
        for one in records
    ]
