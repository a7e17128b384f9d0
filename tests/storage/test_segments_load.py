"""Records written, built, retained, deleted and swept by many brokers at once."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from random import Random

import asyncpg
import pytest

from protocol.ids import Partition
from storage.errors import CommitOutcomeUnknown
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import BatchCommit, BatchOutcome, MetadataStore, TransactionUse
from storage.metadata.segments import RetentionRequest
from storage.metadata.tasks import TaskKind
from storage.metadata.transactions import TransactionEnd, Verdict
from storage.postgres.postgres_connection import Connection
from tests.contracts.metadata_stores import a_batch, commit, create_partitions
from tests.contracts.segment_side import a_swap
from tests.storage.load_turns import ENOUGH, Turns
from tests.support.patience import PATIENT
from tests.support.postgres import create_database

pytestmark = pytest.mark.usefixtures("patience")

LOAD_S = 4.0
ABANDONED_MS = 2000
BROKERS = 3
WRONG_OBJECTS = """
    SELECT count(*) FROM streamhouse_internal.objects AS o
    WHERE (o.state = 'live') <> EXISTS (
        SELECT FROM streamhouse_internal.segments AS s WHERE s.object_id = o.object_id
    )
"""
STRAY_ROWS = """
    SELECT count(*) FROM streamhouse_internal.segments AS s
    WHERE s.inline IS NULL AND NOT EXISTS (
        SELECT FROM streamhouse_internal.objects AS o
        WHERE o.object_id = s.object_id AND o.state = 'live'
    )
"""


@pytest.fixture
async def dsn() -> str:
    """Address of a fresh database with the current schema."""
    return await create_database()


@pytest.fixture
async def brokers(dsn: str) -> AsyncIterator[list[MetadataStore]]:
    """Several stores on one database."""
    async with AsyncExitStack() as stack:
        opened: list[MetadataStore] = []
        for _ in range(BROKERS):
            store = await PostgresMetadata.open(dsn, PATIENT)
            stack.push_async_callback(store.close)
            opened.append(store)
        yield opened


async def commit_in_time(
    store: MetadataStore, batches: Sequence[BatchCommit]
) -> Sequence[BatchOutcome]:
    """Commit an object; return nothing if a sweeper gave it up, for which it has to be late."""
    began_s = time.monotonic()
    try:
        return await commit(store, batches)
    except CommitOutcomeUnknown:
        assert time.monotonic() - began_s >= ABANDONED_MS / 1000
        return ()


class Load:
    """What brokers do at the same time; each method does one thing once."""

    def __init__(self, partitions: list[Partition]) -> None:
        self.random = Random(7)
        self.partitions = partitions
        self.swapped = 0

    def some(self, count: int) -> list[Partition]:
        return sorted(self.random.sample(self.partitions, count))

    async def write(self, store: MetadataStore) -> None:
        chosen = self.some(6)
        await commit_in_time(
            store, [a_batch(each, 100 * n, timestamp_ms=n) for n, each in enumerate(chosen)]
        )

    async def transact(self, store: MetadataStore) -> None:
        producer_id = await store.allocate_producer_ids(2)
        name = f"id-{producer_id}"
        outcome = await store.init_producer(
            name, timeout_ms=60_000, expected=None, fresh_producer_id=producer_id
        )
        assert outcome.producer is not None
        batches = [
            a_batch(
                each,
                100 * n,
                producer=producer_id,
                epoch=0,
                sequence=0,
                transaction=TransactionUse.ADDS,
                owner=name,
            )
            for n, each in enumerate(self.some(4))
        ]
        written = await commit_in_time(store, batches)
        committed = self.random.random() < 0.5
        ended = await store.end_transaction(
            TransactionEnd(
                producer=outcome.producer,
                committed=committed,
                bumps_epoch=True,
                fences=False,
                marker=b"marker",
                marker_timestamp_ms=0,
                fresh_producer_id=producer_id + 1,
            )
        )
        # (if its topics were all deleted meanwhile, or it was too late, there is nothing to commit)
        is_open = any(each.refusal is None for each in written)
        done = is_open or not committed
        assert ended.verdict is (Verdict.DONE if done else Verdict.INVALID_STATE)

    async def build(self, store: MetadataStore) -> None:
        """Build, or compact, whatever rows there are: so brokers are in each other's way."""
        await store.add_tasks(TaskKind.BUILD, self.some(2))
        partition = await store.claim_task(TaskKind.BUILD, self.random.choice([0, 1000]))
        if partition is None:
            return
        first = (await store.partition_offsets([partition])).get(partition)
        if first is not None:
            rows = await store.segments_from(
                partition, first.log_start_offset, self.random.randint(1, 9)
            )
            last = await store.segments_before(partition, first.high_watermark, 3)
            for replaced in filter(None, (rows, last[::-1])):
                path = await store.reserve_segment(
                    partition, replaced[0].start_offset, replaced[-1].end_offset
                )
                if path is not None:
                    swap = a_swap(partition, path, replaced)
                    self.swapped += await store.replace_segments(swap)
        await store.finish_task(TaskKind.BUILD, partition)

    async def retain(self, store: MetadataStore) -> None:
        requests = [
            RetentionRequest(
                partition=each,
                before_ms=self.random.choice([None, 2]),
                keep_bytes=self.random.choice([None, 1000]),
            )
            for each in self.some(4)
        ]
        await store.expire_records(requests)
        await store.purge(self.random.choice([3, 1000]))
        await store.expire_producers(None, 100, self.random.choice([3, 1000]))

    async def delete_records(self, store: MetadataStore) -> None:
        offsets = await store.partition_offsets(self.some(3))
        wanted = {
            each: self.random.randint(found.log_start_offset, found.high_watermark)
            for each, found in offsets.items()
        }
        await store.delete_records(wanted)

    async def sweep(self, store: MetadataStore) -> None:
        after: int | None = 0
        while after is not None:
            _, after = await store.doom_unneeded(after, 0, 50)
        await store.doom_abandoned(ABANDONED_MS, 10)
        await store.forget_objects(await store.doomed_objects(200, 50))

    async def replace_topic(self, store: MetadataStore) -> None:
        made = await create_partitions(store, 2)
        gone = self.partitions[4]
        self.partitions = [
            *(each for each in self.partitions if each.topic_id != gone.topic_id),
            *made,
        ]
        await store.delete_topic(gone.topic_id)

    async def look(self, store: MetadataStore) -> None:
        await store.unbuilt_ranges(None, 100, 10)
        await store.cleanable_ranges(self.partitions)
        await store.backlog()


async def check_tiling(store: MetadataStore, partition: Partition) -> None:
    """See that rows lie side by side; the first one may hold more than the log begins with."""
    offsets = (await store.partition_offsets([partition]))[partition]
    rows = await store.segments_from(partition, offsets.log_start_offset, 100_000)
    for one, other in pairwise(rows):
        assert other.start_offset == one.end_offset + 1
    first = rows[0].start_offset if rows else offsets.high_watermark
    assert first <= offsets.log_start_offset
    assert (rows[-1].end_offset + 1 if rows else first) == offsets.high_watermark


async def test_nobody_deadlocks_and_objects_live_as_long_as_their_rows(
    dsn: str, brokers: list[MetadataStore]
) -> None:
    # Given four topics, and somebody who looks at all tables at once
    store = brokers[0]
    load = Load([each for _ in range(4) for each in await create_partitions(store, 2)])
    connection: Connection = await asyncpg.connect(dsn)

    async def watch(_store: MetadataStore) -> None:
        assert not await connection.fetchval(STRAY_ROWS)

    # When brokers write and build, while records, topics and objects are taken away
    turns = Turns[MetadataStore](LOAD_S, is_enough=lambda: load.swapped >= ENOUGH)
    await turns.take(
        [
            *((load.build, broker) for broker in brokers),
            *((load.write, broker) for broker in brokers),
            (load.transact, brokers[0]),
            *((load.retain, broker) for broker in brokers[1:]),
            (load.delete_records, brokers[0]),
            *((load.sweep, broker) for broker in brokers[1:]),
            (load.replace_topic, brokers[1]),
            (load.look, brokers[2]),
            (watch, brokers[0]),
        ]
    )

    # Then every one of them got on, none was chosen as the victim of a deadlock
    assert len(turns.done) == 9
    assert min(turns.done.values()) >= ENOUGH, turns.done
    assert load.swapped >= ENOUGH
    assert not await connection.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )

    # And the logs have no gap
    for partition in load.partitions:
        await check_tiling(store, partition)

    # And once all is purged and swept, an object is live if, and only if, a row names it
    while await store.purge(1000):
        pass
    await store.doom_abandoned(0, 100_000)
    await store.doom_unneeded(0, 0, 100_000)
    assert not await connection.fetchval(WRONG_OBJECTS)
    assert not await connection.fetchval(STRAY_ROWS)
    await connection.close()
