"""Batches of all partitions on their way into one object."""

import asyncio
from dataclasses import dataclass, field

from protocol.batch import BatchHeader
from storage.metadata import BatchCommit, BatchOutcome, TransactionUse
from storage.partition_log import PartitionLog


@dataclass(slots=True)
class BufferedBatch:
    """A verified batch on its way into the log."""

    log: PartitionLog
    data: memoryview
    header: BatchHeader
    transaction: TransactionUse
    transactional_id: str | None
    leader_epoch: int
    outcome: asyncio.Future[BatchOutcome]


@dataclass(slots=True)
class PendingObject:
    """Batches that will become one object.

    Attributes:
        path: known once the upload begins.
        commits: where each batch lies in the object; made when it is sealed.
        uploaded: resolved when the object is durable in the store.
    """

    uploaded: asyncio.Future[None]
    batches: list[BufferedBatch] = field(default_factory=list)
    commits: list[BatchCommit] = field(default_factory=list)
    size: int = 0
    path: str = ""

    def lay_out(self) -> list[memoryview]:
        """Put the batches of each partition side by side, in arrival order; partitions ascend."""
        self.batches.sort(key=lambda batch: batch.log.partition)  # stable: arrival order is kept
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
        return [batch.data for batch in self.batches]
