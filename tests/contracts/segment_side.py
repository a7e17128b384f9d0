"""Stores whose time passes when the test says, and short words for tests of SegmentStore."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import asyncpg

from protocol.ids import Partition
from storage.metadata.port import MetadataStore
from storage.metadata.segments import RetentionRequest, SegmentSwap, UnbuiltRange
from storage.postgres.postgres_connection import Connection
from storage.segment_entry import SegmentEntry
from tests.contracts.metadata_stores import a_batch, commit, create_partitions
from tests.contracts.transaction_stores import Transactions, open_transactions
from tests.support.fakes.metadata import MemoryMetadata

HOUR_MS: Final = 3_600_000
ALL: Final = 100_000
TIMES: Final = """
    SELECT format('UPDATE %I.%I SET ', table_schema, table_name) || string_agg(
        format('%1$I = %1$I - $1::bigint * interval ''1 ms''', column_name), ', '
    )
    FROM information_schema.columns JOIN information_schema.tables
        USING (table_catalog, table_schema, table_name)
    WHERE table_schema = 'streamhouse_internal' AND table_type = 'BASE TABLE'
        AND data_type = 'timestamp with time zone'
    GROUP BY table_schema, table_name
"""
OBJECTS: Final = "SELECT path, state FROM streamhouse_internal.objects"


@dataclass(frozen=True, slots=True)
class Segments:
    """A store, the hand of time, and an eye for what no port tells.

    Attributes:
        transactions: of the same store.
        passes: makes everything older, by so many milliseconds.
        states: tells the state of every object by its path.
    """

    store: MetadataStore
    transactions: Transactions
    passes: Callable[[int], Coroutine[None, None, None]]
    states: Callable[[], Coroutine[None, None, Mapping[str, str]]]

    async def partitions(self, partition_count: int) -> list[Partition]:
        """Create a topic and return its partitions."""
        return await create_partitions(self.store, partition_count)

    async def write(
        self,
        partition: Partition,
        records: int = 10,
        *,
        length: int = 100,
        timestamp_ms: int = 0,
    ) -> SegmentEntry:
        """Commit an object with one batch; return its row."""
        batch = a_batch(partition, 0, records=records, length=length, timestamp_ms=timestamp_ms)
        (outcome,) = await commit(self.store, [batch])
        (row,) = await self.store.segments_from(partition, outcome.base_offset, 1)
        return row

    async def rows(self, partition: Partition) -> list[SegmentEntry]:
        """Return all rows of a partition, those before its log start offset among them."""
        return await self.store.segments_from(partition, 0, ALL)

    async def swap(
        self,
        partition: Partition,
        replaced: Sequence[SegmentEntry],
        *,
        length: int = 100,
        timestamp_ms: int | None = None,
    ) -> SegmentSwap:
        """Reserve a segment in the place of rows."""
        path = await self.store.reserve_segment(
            partition, replaced[0].start_offset, replaced[-1].end_offset
        )
        assert path is not None
        return a_swap(partition, path, replaced, length=length, timestamp_ms=timestamp_ms)

    async def build(
        self, partition: Partition, rows: int = ALL, *, length: int = 100
    ) -> SegmentEntry:
        """Put a segment in the place of the first rows that are not built; return its row."""
        built_offset = (await self.unbuilt(partition))[0].built_offset
        replaced = await self.store.segments_from(partition, built_offset, rows)
        swap = await self.swap(partition, replaced, length=length)
        assert await self.store.replace_segments(swap)
        return row_of(swap)

    async def unbuilt(self, partition: Partition, max_rows: int = ALL) -> list[UnbuiltRange]:
        """Return what is not built of a partition: one range, or none."""
        ranges, following = await self.store.unbuilt_ranges(None, ALL, max_rows)
        assert following is None
        return [each for each in ranges if each.partition == partition]

    async def log_start(self, partition: Partition) -> int:
        return (await self.store.partition_offsets([partition]))[partition].log_start_offset

    async def forget_producers(self, unused_ms: int) -> int:
        """Forget all states that nobody wrote with for so long; return how many."""
        gone, following = await self.store.expire_producers(None, unused_ms, ALL)
        assert following is None
        return gone

    async def purge(self) -> int:
        """Purge all that there is; return how many rows are gone."""
        gone = 0
        while removed := await self.store.purge(ALL):
            gone += removed
        return gone


@asynccontextmanager
async def open_segments(kind: str) -> AsyncIterator[Segments]:
    """Open an empty store."""
    async with open_transactions(kind) as transactions:
        store, groups = transactions.store, transactions.groups
        if isinstance(store, MemoryMetadata):
            memory = store

            async def pass_in_memory(milliseconds: int) -> None:
                await groups.passes(milliseconds)

            async def states_in_memory() -> Mapping[str, str]:
                return memory._objects.states()

            yield Segments(store, transactions, pass_in_memory, states_in_memory)
            return
        assert groups.dsn is not None
        connection: Connection = await asyncpg.connect(groups.dsn)
        updates = [row[0] for row in await connection.fetch(TIMES)]

        async def pass_in_postgres(milliseconds: int) -> None:
            for update in updates:
                await connection.execute(update, milliseconds)

        async def states_in_postgres() -> Mapping[str, str]:
            return {row["path"]: row["state"] for row in await connection.fetch(OBJECTS)}

        try:
            yield Segments(store, transactions, pass_in_postgres, states_in_postgres)
        finally:
            await connection.close()


def a_swap(
    partition: Partition,
    path: str,
    replaced: Sequence[SegmentEntry],
    *,
    length: int = 100,
    timestamp_ms: int | None = None,
) -> SegmentSwap:
    """A segment of a 16-byte header, batches, and a 40-byte index."""
    latest_ms = max(row.max_timestamp_ms for row in replaced)
    return SegmentSwap(
        partition=partition,
        path=path,
        size=16 + length + 40,
        replaced=replaced,
        start=16,
        length=length,
        index_length=40,
        max_timestamp_ms=latest_ms if timestamp_ms is None else timestamp_ms,
    )


def row_of(swap: SegmentSwap) -> SegmentEntry:
    """The row that a swap leaves."""
    return SegmentEntry(
        start_offset=swap.replaced[0].start_offset,
        end_offset=swap.replaced[-1].end_offset,
        path=swap.path,
        start=swap.start,
        length=swap.length,
        max_timestamp_ms=swap.max_timestamp_ms,
        index_length=swap.index_length,
    )


def keeps(
    partition: Partition, *, before_ms: int | None = None, keep_bytes: int | None = None
) -> RetentionRequest:
    return RetentionRequest(partition=partition, before_ms=before_ms, keep_bytes=keep_bytes)
