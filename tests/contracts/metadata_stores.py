"""The metadata stores that the contract suite runs on, and short words for its tests."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final

import asyncpg
import pytest

from protocol.batch import NO_PRODUCER_ID
from protocol.ids import Partition
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import (
    BatchCommit,
    BatchOutcome,
    MetadataStore,
    SegmentLookup,
    TransactionUse,
)
from storage.partition_offsets import PartitionOffsets
from storage.postgres.postgres_connection import Connection
from storage.segment_entry import SegmentEntry
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.patience import PATIENT, lift_limits
from tests.support.postgres import create_database

KINDS: Final = ("memory", "postgres")
EVERYTHING: Final = 2**62

_paths = count(1)


@dataclass(frozen=True, slots=True)
class StoreUnderTest:
    """A store, and the sweeper's hand: `doom` gives up a pending object."""

    store: MetadataStore
    doom: Callable[[str], Coroutine[None, None, None]]


@asynccontextmanager
async def open_store(kind: str) -> AsyncIterator[StoreUnderTest]:
    """Open an empty store."""
    if kind == "memory":
        memory = MemoryMetadata(Random(1))

        async def doom_in_memory(path: str) -> None:
            given_up = memory._objects.find(path)
            assert given_up is not None
            assert given_up.state == "pending"
            given_up.doom(0)

        yield StoreUnderTest(memory, doom_in_memory)
        return
    async with patient_postgres() as (dsn, store):
        yield StoreUnderTest(store, lambda path: doom_in_postgres(dsn, path))


@asynccontextmanager
async def patient_postgres() -> AsyncIterator[tuple[str, PostgresMetadata]]:
    """Open an empty database, for tests of what is answered, not of how soon."""
    dsn = await create_database()
    with pytest.MonkeyPatch.context() as patched:
        lift_limits(patched)
        store = await PostgresMetadata.open(dsn, PATIENT)
        try:
            yield dsn, store
        finally:
            await store.close()


async def doom_in_postgres(dsn: str, path: str) -> None:
    """Do what the sweeper does with an upload that was given up."""
    connection: Connection = await asyncpg.connect(dsn)
    try:
        changed = await connection.execute(
            "UPDATE streamhouse_internal.objects SET state = 'doomed' "
            "WHERE path = $1 AND state = 'pending'",
            path,
        )
    finally:
        await connection.close()
    assert changed == "UPDATE 1"


async def create_partitions(
    store: MetadataStore, partition_count: int, *, name: str = ""
) -> list[Partition]:
    """Create a topic, with a name that none had unless told otherwise; return its partitions."""
    topic = await store.create_topic(
        name or f"topic-{next(_paths)}",
        partition_count=partition_count,
        replication_factor=1,
        configs={},
    )
    return [Partition(topic.topic_id, index) for index in range(partition_count)]


def a_batch(
    partition: Partition,
    start: int,
    *,
    records: int = 10,
    length: int = 100,
    timestamp_ms: int = 0,
    producer: int = NO_PRODUCER_ID,
    epoch: int = -1,
    sequence: int = -1,
    transaction: TransactionUse = TransactionUse.NONE,
    owner: str | None = None,
    leader_epoch: int = 0,
) -> BatchCommit:
    """A batch at byte `start`."""
    return BatchCommit(
        partition=partition,
        start=start,
        length=length,
        record_count=records,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transaction=transaction,
        transactional_id=owner,
        leader_epoch=leader_epoch,
    )


async def reserved(store: MetadataStore) -> str:
    """Return a path that was reserved, and that no other test has."""
    path = f"wal/{next(_paths)}"
    await store.reserve_objects([path])
    return path


async def commit(store: MetadataStore, batches: Sequence[BatchCommit]) -> list[BatchOutcome]:
    """Reserve a new object and commit it."""
    path = await reserved(store)
    return await store.commit_object(path, sum(batch.length for batch in batches), batches)


async def write(
    store: MetadataStore, partition: Partition, producer: int, epoch: int, sequence: int
) -> str | int:
    """Commit an object with one batch of ten records; return the base offset, or what was wrong."""
    batch = a_batch(partition, 0, producer=producer, epoch=epoch, sequence=sequence)
    (outcome,) = await commit(store, [batch])
    return short(outcome)


def short(outcome: BatchOutcome) -> str | int:
    """Say an outcome in a word."""
    if outcome.refusal is not None:
        assert (outcome.base_offset, outcome.log_start_offset) == (-1, -1)
        assert (outcome.last_stable_offset, outcome.aborted_count) == (-1, -1)
        return type(outcome.refusal).__name__
    return f"duplicate of {outcome.base_offset}" if outcome.duplicate else outcome.base_offset


def ends_at(high_watermark: int) -> PartitionOffsets:
    """A partition that never saw a transaction."""
    return PartitionOffsets(
        log_start_offset=0,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        aborted_count=0,
    )


async def whole_log(store: MetadataStore, partition: Partition) -> list[SegmentEntry]:
    """Return all runs of a partition, and check that they tile its log without gap or overlap."""
    offsets = (await store.partition_offsets([partition]))[partition]
    entries: list[SegmentEntry] = []
    expected = offsets.log_start_offset
    while True:
        lookup = SegmentLookup(partition=partition, offset=expected, max_bytes=EVERYTHING)
        (found,) = await store.find_segments([lookup])
        if not found:
            break
        for entry in found:
            assert entry.start_offset == expected
            assert entry.end_offset >= entry.start_offset
            expected = entry.end_offset + 1
        entries += found
    assert expected == offsets.high_watermark
    return entries
