"""Stores of transactions whose time passes when the test says, and short words for their tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final

import asyncpg

from protocol.ids import Partition
from storage.metadata.groups import CommittedOffset
from storage.metadata.port import MetadataStore, TransactionUse
from storage.metadata.transactions import (
    EndOutcome,
    InitOutcome,
    Producer,
    TransactionEnd,
    TransactionOffsets,
    TransactionOffsetsOutcome,
    TransactionRecord,
    Verdict,
)
from storage.postgres.postgres_connection import Connection
from tests.contracts.group_stores import Groups, open_groups
from tests.contracts.metadata_stores import a_batch, commit, create_partitions, short
from tests.support.fakes.metadata import MemoryMetadata

HOUR_MS: Final = 3_600_000
PATIENCE_SECONDS: Final = 20.0
SET_EPOCH: Final = """
    UPDATE streamhouse_internal.transactions SET producer_epoch = $2 WHERE transactional_id = $1
"""
SET_ABORTED_COUNT: Final = """
    UPDATE streamhouse_internal.partitions SET aborted_count = $3
    WHERE topic_id = $1 AND partition = $2
"""


@dataclass(frozen=True, slots=True)
class Transactions:
    """A store, and the hand of time.

    Attributes:
        waits: lets a moment pass.
        set_epoch: makes a transactional id look as if its epoch had been raised often.
        set_aborted_count: makes a partition look as if so many transactions had been aborted.
    """

    store: MetadataStore
    groups: Groups
    waits: Callable[[], Awaitable[None]]
    set_epoch: Callable[[str, int], Awaitable[None]]
    set_aborted_count: Callable[[Partition, int], Awaitable[None]]

    async def partitions(self, partition_count: int) -> list[Partition]:
        """Create a topic and return its partitions."""
        return await create_partitions(self.store, partition_count)

    async def init(
        self, name: str = "t", *, expected: Producer | None = None, timeout_ms: int = HOUR_MS
    ) -> InitOutcome:
        """Ask for an epoch."""
        believed = (expected.producer_id, expected.producer_epoch) if expected else None
        return await self.store.init_producer(
            name,
            timeout_ms=timeout_ms,
            expected=believed,
            fresh_producer_id=await self.store.allocate_producer_ids(1),
        )

    async def producer(
        self, name: str = "t", *, expected: Producer | None = None, timeout_ms: int = HOUR_MS
    ) -> Producer:
        """Be given an epoch."""
        outcome = await self.init(name, expected=expected, timeout_ms=timeout_ms)
        assert outcome.verdict is Verdict.DONE
        assert outcome.producer is not None
        return outcome.producer

    async def send(
        self,
        producer: Producer,
        partition: Partition,
        sequence: int = 0,
        *,
        use: TransactionUse = TransactionUse.ADDS,
    ) -> str | int:
        """Commit a batch of ten records; return the base offset, or what was wrong."""
        batch = a_batch(
            partition,
            0,
            producer=producer.producer_id,
            owner=producer.transactional_id,
            epoch=producer.producer_epoch,
            sequence=sequence,
            transaction=use,
        )
        (outcome,) = await commit(self.store, [batch])
        return short(outcome)

    async def end(
        self,
        producer: Producer,
        *,
        committed: bool = True,
        bumps: bool = True,
        fences: bool = False,
        overdue_only: bool = False,
        timestamp_ms: int = 0,
    ) -> EndOutcome:
        """End a transaction as a client of KIP-890 does, but for what the arguments say."""
        return await self.store.end_transaction(
            TransactionEnd(
                producer=producer,
                committed=committed,
                bumps_epoch=bumps,
                fences=fences,
                overdue_only=overdue_only,
                marker=b"commit" if committed else b"abort!!",
                marker_timestamp_ms=timestamp_ms,
                fresh_producer_id=await self.store.allocate_producer_ids(1),
            )
        )

    async def goes_on(self, producer: Producer, *, committed: bool = True) -> Producer:
        """End a transaction as a client of KIP-890 does; return who it is from now on."""
        outcome = await self.end(producer, committed=committed)
        assert outcome.verdict is Verdict.DONE
        assert outcome.producer is not None
        return outcome.producer

    async def write_offsets(
        self,
        producer: Producer,
        group_id: str,
        owner_epoch: int,
        offsets: Mapping[Partition, int],
        *,
        joins: bool = True,
    ) -> TransactionOffsetsOutcome:
        return await self.store.write_transaction_offsets(
            TransactionOffsets(
                producer=producer,
                group_id=group_id,
                owner_epoch=owner_epoch,
                joins=joins,
                offsets={
                    partition: CommittedOffset(offset=offset)
                    for partition, offset in offsets.items()
                },
            )
        )

    async def unstable(self, group_id: str) -> frozenset[Partition]:
        """Return for which partitions open transactions have offsets of a group."""
        return (await self.store.committed_offsets(group_id, None)).unstable

    async def stands(self, partition: Partition) -> tuple[int, int, int]:
        """Return high watermark, last stable offset, and how many transactions were aborted."""
        found = (await self.store.partition_offsets([partition]))[partition]
        return found.high_watermark, found.last_stable_offset, found.aborted_count

    async def aborted(
        self, partition: Partition, start: int = 0, end: int = 2**62, limit: int = 1000
    ) -> list[tuple[int, int, int]]:
        """Return producer id, first and last offset of each aborted transaction."""
        page = await self.store.aborted_transactions(partition, start, end, limit, aborted_count=0)
        found = page.transactions
        return [(each.producer_id, each.first_offset, each.last_offset) for each in found]

    async def record(self, name: str = "t") -> TransactionRecord:
        (record,) = await self.store.find_transactions([name])
        return record

    async def overdue(self, count: int = 1) -> list[Producer]:
        """Wait until so many transactions are past their deadline; return whose they are."""
        deadline = monotonic() + PATIENCE_SECONDS
        while len(found := await self.store.overdue_transactions(100)) < count:
            assert monotonic() < deadline
            await self.waits()
        return found


@asynccontextmanager
async def open_transactions(kind: str) -> AsyncIterator[Transactions]:
    """Open an empty store."""
    async with open_groups(kind) as groups:
        store = groups.store
        if isinstance(store, MemoryMetadata):
            memory = store

            async def set_in_memory(name: str, epoch: int) -> None:
                found = memory._transactional_ids[name]
                found.identity = found.identity._replace(epoch=epoch)

            async def set_count_in_memory(partition: Partition, count: int) -> None:
                memory._partitions[partition].aborted_count = count

            yield Transactions(
                store, groups, lambda: groups.passes(1), set_in_memory, set_count_in_memory
            )
            return
        assert groups.dsn is not None
        connection: Connection = await asyncpg.connect(groups.dsn)

        async def set_in_postgres(name: str, epoch: int) -> None:
            assert await connection.execute(SET_EPOCH, name, epoch) == "UPDATE 1"

        async def set_count_in_postgres(partition: Partition, count: int) -> None:
            assert await connection.execute(SET_ABORTED_COUNT, *partition, count) == "UPDATE 1"

        async def waits() -> None:
            await asyncio.sleep(0.002)

        try:
            yield Transactions(store, groups, waits, set_in_postgres, set_count_in_postgres)
        finally:
            await connection.close()


def named(producer: Producer, producer_id: int, epoch: int) -> Producer:
    """Return a producer of the same transactional id."""
    return Producer(
        transactional_id=producer.transactional_id, producer_id=producer_id, producer_epoch=epoch
    )


def bumped(producer: Producer, by: int = 1) -> Producer:
    return named(producer, producer.producer_id, producer.producer_epoch + by)


def refused(verdict: Verdict) -> EndOutcome:
    return EndOutcome(verdict=verdict)


def repeated(producer: Producer) -> EndOutcome:
    """Return the answer that wrote nothing."""
    return EndOutcome(verdict=Verdict.DONE, producer=producer)
