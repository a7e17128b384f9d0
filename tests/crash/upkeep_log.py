"""A log on a real Postgres and a directory of objects, and a model of what its readers get."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from protocol.batch import TRANSACTIONAL_BIT, read_header
from protocol.compression import Codec
from protocol.control_batch import EndMarker, build_end_marker
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import BatchCommit, TransactionUse
from storage.metadata.transactions import Producer, TransactionEnd, Verdict
from storage.objects.objects_directory import DirectoryStore
from tests.crash.upkeep_child import POOL, now_ms
from tests.storage.compacted_log import Written, records_of

HOUR_MS: Final = 3_600_000
KEYS: Final = 12
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": "0.0",
}


@dataclass(slots=True)
class LogModel:
    """One partition.

    Attributes:
        compacted: a key's older records may be gone.
        young_offset: retention takes nothing from here on.
        least_offset: where the log begins at least: records before it were deleted.
        records: all that were ever written, by offset.
        committed: offsets of those that readers of committed records get.
    """

    name: str
    partition: Partition
    compacted: bool
    young_offset: int = 0
    least_offset: int = 0
    high_watermark: int = 0
    records: dict[int, Written] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    open: dict[str, set[int]] = field(default_factory=dict)

    @property
    def stable_offset(self) -> int:
        return min((min(those) for those in self.open.values()), default=self.high_watermark)


@dataclass(slots=True)
class _Sender:
    """A producer; its next sequence in each partition."""

    producer: Producer
    sequences: dict[Partition, int] = field(default_factory=dict)


class WrittenLog:
    """Writes, and remembers what it wrote.

    Attributes:
        logs: of all partitions that are there.
    """

    def __init__(self, metadata: PostgresMetadata, objects: DirectoryStore, dice: Random) -> None:
        self.logs: dict[Partition, LogModel] = {}
        self._metadata = metadata
        self._objects = objects
        self._dice = dice
        self._names = count()
        self._senders: dict[str, _Sender] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, root: Path, dice: Random) -> AsyncIterator["WrittenLog"]:
        metadata = await PostgresMetadata.open(dsn, POOL)
        objects = await DirectoryStore.open(root)
        try:
            yield cls(metadata, objects, dice)
        finally:
            await objects.close()
            await metadata.close()

    async def create(
        self, name: str, partition_count: int, configs: dict[str, str]
    ) -> list[Partition]:
        topic = await self._metadata.create_topic(
            name, partition_count=partition_count, replication_factor=1, configs=configs
        )
        partitions = [Partition(topic.topic_id, index) for index in range(partition_count)]
        for one in partitions:
            self.logs[one] = LogModel(f"{name}-{one.index}", one, configs == COMPACTED)
        return partitions

    async def delete(self, partitions: Sequence[Partition]) -> None:
        """Delete a topic."""
        await self._metadata.delete_topic(partitions[0].topic_id)
        for one in partitions:
            del self.logs[one]

    async def delete_records(self, partition: Partition, offset: int) -> None:
        await self._metadata.delete_records({partition: offset})
        self.logs[partition].least_offset = offset

    async def abandon(self, *, uploaded: bool) -> None:
        """Leave what a writer leaves that dies before its commit."""
        path = f"wal/abandoned/{next(self._names)}"
        await self._metadata.reserve_objects([path])
        if uploaded:
            await self._objects.put(path, [b"nobody will ever ask for this"])

    async def write(
        self,
        partitions: Sequence[Partition],
        *,
        transaction: str | None = None,
        age_ms: int = 0,
    ) -> None:
        """Write an object with a batch for each partition, in the order of their keys.

        Args:
            partitions: ascending; may come more than once.
            transaction: of this transactional id, which begins if need be; None: idempotent.
            age_ms: how old the records are; retention may take them if that is much.
        """
        name = transaction or "idempotent"
        sender = await self._sender(name, transaction)
        batches: list[bytes] = []
        commits: list[BatchCommit] = []
        start = 0
        for partition in partitions:
            data = self._batch(sender, partition, name == transaction, now_ms() - age_ms)
            header = read_header(data)
            commits.append(
                BatchCommit(
                    partition=partition,
                    start=start,
                    length=len(data),
                    record_count=header.record_count,
                    max_timestamp_ms=header.max_timestamp_ms,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    transaction=TransactionUse.ADDS if transaction else TransactionUse.NONE,
                    transactional_id=transaction,
                )
            )
            batches.append(data)
            start += len(data)
        path = f"wal/{next(self._names)}"
        await self._metadata.reserve_objects([path])
        await self._objects.put(path, batches)
        outcomes = await self._metadata.commit_object(path, start, commits)
        for data, commit, outcome in zip(batches, commits, outcomes, strict=True):
            assert outcome.refusal is None, outcome
            self._note(commit, outcome.base_offset, data, is_young=not age_ms)

    async def end(self, name: str, *, committed: bool) -> None:
        """End a transaction in all its partitions."""
        producer = self._senders[name].producer
        marker = EndMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch + 1,
            committed=committed,
            timestamp_ms=now_ms(),
        )
        outcome = await self._metadata.end_transaction(
            TransactionEnd(
                producer=producer,
                committed=committed,
                bumps_epoch=True,
                marker=build_end_marker(marker, leader_epoch=0),
                marker_timestamp_ms=now_ms(),
            )
        )
        assert outcome.verdict is Verdict.DONE
        assert outcome.producer is not None
        self._senders[name] = _Sender(outcome.producer)
        for partition, offsets in outcome.markers.items():
            log = self.logs[partition]
            log.high_watermark = offsets.high_watermark
            written = log.open.pop(name)
            if committed:
                log.committed |= written

    async def _sender(self, name: str, transaction: str | None) -> _Sender:
        if name not in self._senders:
            producer_id = await self._metadata.allocate_producer_ids(1)
            producer: Producer | None = Producer(
                transactional_id="", producer_id=producer_id, producer_epoch=0
            )
            if transaction:
                made = await self._metadata.init_producer(
                    name, timeout_ms=1 << 30, expected=None, fresh_producer_id=producer_id
                )
                producer = made.producer
            assert producer is not None
            self._senders[name] = _Sender(producer)
        return self._senders[name]

    def _batch(
        self, sender: _Sender, partition: Partition, is_transactional: bool, at_ms: int
    ) -> bytes:
        dice, compacted = self._dice, self.logs[partition].compacted
        records = [
            Record(
                offset_delta=at,
                timestamp_delta_ms=at,
                key=b"key %d" % dice.randrange(KEYS),
                value=None if compacted and dice.random() < 0.2 else dice.randbytes(60),
                headers=(("at", b"%d" % at),) if at % 2 else (),
            )
            for at in range(dice.randint(1, 5))
        ]
        sequence = sender.sequences.get(partition, 0)
        sender.sequences[partition] = sequence + len(records)
        codec = dice.choice((Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP))
        return build_batch(
            records,
            attributes=codec | (TRANSACTIONAL_BIT if is_transactional else 0),
            base_timestamp_ms=at_ms,
            producer_id=sender.producer.producer_id,
            producer_epoch=sender.producer.producer_epoch,
            base_sequence=sequence,
        )

    def _note(self, commit: BatchCommit, offset: int, data: bytes, *, is_young: bool) -> None:
        log = self.logs[commit.partition]
        batch = bytearray(data)
        batch[:8] = offset.to_bytes(8, "big")
        written = {one.offset: one for one in records_of(bytes(batch))}
        log.records |= written
        log.high_watermark = offset + commit.record_count
        if not is_young:
            log.young_offset = log.high_watermark
        if commit.transactional_id is None:
            log.committed |= written.keys()
        else:
            log.open.setdefault(commit.transactional_id, set()).update(written)
