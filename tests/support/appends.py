"""Batches that a test appends to a log, as the handler of Produce does once it has checked them."""

import asyncio

from protocol.batch import read_header
from storage.log import Log
from storage.metadata.port import BatchOutcome, TransactionUse
from storage.partition_log import PartitionLog
from storage.writer import Writer


def append(
    to: Log | Writer,
    partition_log: PartitionLog,
    batch: memoryview,
    *,
    transaction: TransactionUse = TransactionUse.NONE,
    transactional_id: str | None = None,
    leader_epoch: int = 0,
    client_id: str = "",
) -> asyncio.Future[BatchOutcome]:
    """Append a batch of a client that says nothing but this of itself."""
    return to.append(
        partition_log,
        batch,
        read_header(batch),
        transaction=transaction,
        transactional_id=transactional_id,
        leader_epoch=leader_epoch,
        client_id=client_id,
    )
