"""Batches of all partitions on their way into one object."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final
from uuid import UUID

from protocol.batch import BatchHeader
from storage.metadata import BatchCommit, BatchOutcome, TransactionUse
from storage.objects import Buffer
from storage.partition_log import PartitionLog
from storage.usage_counter import Share
from storage.wal_index import WalIndex, WalRun, encode_index

_RUN_KEY: Final = attrgetter("log", "leader_epoch")
_PARTITION: Final = attrgetter("log.partition")


@dataclass(slots=True)
class BufferedBatch:
    """A verified batch on its way into the log.

    Attributes:
        expected_offset: that it gets if no other broker writes; UNKNOWN_OFFSET if nobody knows.
        client_id: of the producer, as it calls itself.
    """

    log: PartitionLog
    data: memoryview
    header: BatchHeader
    transaction: TransactionUse
    transactional_id: str | None
    leader_epoch: int
    expected_offset: int
    outcome: asyncio.Future[BatchOutcome]
    client_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """What an object says of its writer (storage/wal_index.py)."""

    writer_id: UUID
    sequence: int
    written_ms: int


@dataclass(slots=True)
class PendingObject:
    """Batches that will become one object.

    Attributes:
        path: known once the upload begins.
        commits: where each batch lies in the object; made when it is sealed.
        size: bytes of the batches.
        object_size: bytes of the whole object; known when it is sealed.
        sealed_at: when it took its last batch, in seconds of the writer's clock.
        uploaded: resolved when the object is durable in the store.
    """

    uploaded: asyncio.Future[None]
    batches: list[BufferedBatch] = field(default_factory=list)
    commits: list[BatchCommit] = field(default_factory=list)
    size: int = 0
    object_size: int = 0
    sealed_at: float = 0.0
    path: str = ""

    def lay_out(self, seal: Seal, name_of: Callable[[PartitionLog], str]) -> list[Buffer]:
        """Put the batches of each partition side by side, in arrival order; partitions ascend.

        Args:
            seal: of this object.
            name_of: returns the name of a partition's topic.

        Returns:
            the object's bytes: the batches, and the index behind them.
        """
        self.batches.sort(key=_PARTITION)  # stable: arrival order is kept
        start = 0
        for batch in self.batches:
            header = batch.header
            self.commits.append(
                BatchCommit(
                    partition=batch.log.partition,
                    start=start,
                    length=len(batch.data),
                    record_count=header.record_count,
                    max_timestamp_ms=header.max_timestamp_ms,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    transaction=batch.transaction,
                    transactional_id=batch.transactional_id,
                    leader_epoch=batch.leader_epoch,
                )
            )
            start += len(batch.data)
        index = encode_index(self._index(seal, name_of))
        self.object_size = start + len(index)
        return [*[batch.data for batch in self.batches], index]

    def shares(self) -> list[Share]:
        """Return whose batches it has, and how many bytes of each; once it is laid out."""
        topic_id: UUID | None = None
        topics: dict[UUID, dict[str, int]] = {}
        clients: dict[str, int] = {}
        for batch in self.batches:
            if batch.log.partition.topic_id is not topic_id:  # batches of a topic stand together
                topic_id = batch.log.partition.topic_id
                clients = topics.setdefault(topic_id, {})
            clients[batch.client_id] = clients.get(batch.client_id, 0) + len(batch.data)
        return [
            Share(topic_id, client_id, size)
            for topic_id, sizes in topics.items()
            for client_id, size in sizes.items()
        ]

    def _index(self, seal: Seal, name_of: Callable[[PartitionLog], str]) -> WalIndex:
        topics: list[tuple[UUID, str]] = []
        runs: list[WalRun] = []
        start = 0
        for (log, leader_epoch), group in groupby(self.batches, _RUN_KEY):
            topic_id, partition = log.partition
            if not topics or topics[-1][0] != topic_id:
                topics.append((topic_id, name_of(log)))
            size = record_count = max_timestamp_ms = 0
            expected_offset: int | None = None
            for batch in group:
                header = batch.header
                size += len(batch.data)
                record_count += header.record_count
                if expected_offset is None:  # the first one
                    expected_offset, max_timestamp_ms = (
                        batch.expected_offset,
                        header.max_timestamp_ms,
                    )
                elif header.max_timestamp_ms > max_timestamp_ms:
                    max_timestamp_ms = header.max_timestamp_ms
            assert expected_offset is not None, "a group has a batch"
            runs.append(
                WalRun(
                    *(len(topics) - 1, partition, start, size),
                    *(record_count, expected_offset, leader_epoch, max_timestamp_ms),
                )
            )
            start += size
        return WalIndex(
            writer_id=seal.writer_id,
            sequence=seal.sequence,
            written_ms=seal.written_ms,
            topics=tuple(topics),
            runs=tuple(runs),
        )
