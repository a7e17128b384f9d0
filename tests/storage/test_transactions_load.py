"""Transactions, groups, topics and records changed by many brokers at once."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random

import asyncpg
import pytest

from protocol.ids import Partition
from storage.metadata.groups import CommittedOffset
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import MetadataStore, TransactionUse
from storage.metadata.transactions import (
    EndOutcome,
    InitOutcome,
    Producer,
    TransactionEnd,
    TransactionOffsets,
    Verdict,
)
from storage.postgres.postgres_connection import Connection
from tests.contracts.metadata_stores import a_batch, commit, create_partitions, whole_log
from tests.storage.load_turns import ENOUGH, Turns
from tests.support.patience import PATIENT
from tests.support.postgres import create_database

pytestmark = pytest.mark.usefixtures("patience")

LOAD_S = 4.0
BROKERS = 4
TRANSACTIONAL_IDS = [f"id-{number}" for number in range(6)]
GROUPS = [f"group-{number}" for number in range(3)]
CONTRADICTIONS = """
    SELECT count(*) FROM streamhouse_internal.partitions AS p
    WHERE p.first_unstable_offset IS DISTINCT FROM (
        SELECT min(t.first_offset) FROM streamhouse_internal.transaction_partitions AS t
        WHERE t.topic_id = p.topic_id AND t.partition = p.partition
    ) OR p.aborted_count <> (
        SELECT count(*) FROM streamhouse_internal.aborted_transactions AS a
        WHERE a.topic_id = p.topic_id AND a.partition = p.partition
    )
"""
STRAY_OFFSETS = """
    SELECT count(*) FROM (
        SELECT group_id, topic_id, partition FROM streamhouse_internal.group_offsets
        UNION ALL
        SELECT group_id, topic_id, partition FROM streamhouse_internal.transaction_offsets
    ) AS o
    WHERE NOT EXISTS (
        SELECT FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = o.topic_id AND p.partition = o.partition
    ) OR NOT EXISTS (
        SELECT FROM streamhouse_internal.groups AS g WHERE g.group_id = o.group_id
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


async def end(
    store: MetadataStore, producer: Producer, *, committed: bool, fences: bool = False
) -> EndOutcome:
    """End a transaction as a client of KIP-890 does, or fence it."""
    return await store.end_transaction(
        TransactionEnd(
            producer=producer,
            committed=committed,
            bumps_epoch=True,
            fences=fences,
            marker=b"marker",
            marker_timestamp_ms=0,
            fresh_producer_id=await store.allocate_producer_ids(1),
        )
    )


async def init(store: MetadataStore, name: str) -> InitOutcome:
    return await store.init_producer(
        name,
        timeout_ms=60_000,
        expected=None,
        fresh_producer_id=await store.allocate_producer_ids(1),
    )


class Load:
    """What brokers do at the same time; each method does one thing once.

    Attributes:
        appended: base offsets of batches, by producer and partition.
        ended: offsets of markers, by producer and partition.
    """

    def __init__(self, partitions: list[Partition]) -> None:
        self.random = Random(7)
        self.partitions = partitions
        self.current: dict[str, Producer] = {}
        self.appended: dict[tuple[Producer, Partition], list[int]] = {}
        self.ended: dict[Producer, dict[Partition, int]] = {}
        self.last_stable_offsets: dict[Partition, int] = {}

    def some_partitions(self) -> list[Partition]:
        return sorted(self.random.sample(self.partitions, 4))

    async def start_over(self, store: MetadataStore) -> None:
        """Take an id from whoever has it."""
        name = self.random.choice(TRANSACTIONAL_IDS)
        outcome = await init(store, name)
        if outcome.verdict is Verdict.OPEN:
            assert outcome.producer is not None
            self.note_end(
                outcome.producer, await end(store, outcome.producer, committed=False, fences=True)
            )
        elif outcome.producer is not None:
            self.current[name] = outcome.producer

    async def transact(self, store: MetadataStore) -> None:
        """Write in the transactions of several ids at once, and end one of them."""
        known = [producer for _, producer in sorted(self.current.items())]
        producers = self.random.sample(known, min(3, len(known)))
        await self.write(store, producers)
        for producer in producers[:2]:
            await store.add_to_transaction(producer, self.some_partitions(), GROUPS[:1])
            await self.write_offsets(store, producer)
        for producer in producers[:1]:
            outcome = await end(store, producer, committed=self.random.random() < 0.5)
            self.note_end(producer, outcome)
            if outcome.producer is not None:
                self.current[producer.transactional_id] = outcome.producer

    async def write(self, store: MetadataStore, producers: list[Producer]) -> None:
        batches = [
            a_batch(
                partition,
                100 * number,
                producer=producer.producer_id,
                owner=producer.transactional_id,
                epoch=producer.producer_epoch,
                sequence=0,
                transaction=self.random.choice([TransactionUse.ADDED, TransactionUse.ADDS]),
            )
            for partition in self.some_partitions()
            for number, producer in enumerate(producers)
        ]
        writers = producers * 4
        outcomes = await commit(store, batches)
        for producer, batch, outcome in zip(writers, batches, outcomes, strict=True):
            if outcome.refusal is None and not outcome.duplicate:
                assert outcome.last_stable_offset <= outcome.base_offset  # its own is open
                place = (producer, batch.partition)
                self.appended.setdefault(place, []).append(outcome.base_offset)

    async def write_offsets(self, store: MetadataStore, producer: Producer) -> None:
        (group,) = await store.take_groups([self.random.choice(GROUPS)], create=True)
        await store.write_transaction_offsets(
            TransactionOffsets(
                producer=producer,
                group_id=group.group_id,
                owner_epoch=group.owner_epoch,
                joins=self.random.random() < 0.5,
                offsets=dict.fromkeys(self.some_partitions(), CommittedOffset(offset=1)),
            )
        )

    def note_end(self, producer: Producer, outcome: EndOutcome) -> None:
        for partition, offsets in outcome.markers.items():
            assert offsets.last_stable_offset <= offsets.high_watermark
            self.ended.setdefault(producer, {})[partition] = offsets.high_watermark - 1

    async def write_plainly(self, store: MetadataStore) -> None:
        chosen = sorted(self.partitions)
        await commit(store, [a_batch(each, 100 * n) for n, each in enumerate(chosen)])

    async def remove_groups(self, store: MetadataStore) -> None:
        for group in await store.take_groups(GROUPS, create=False):
            owner = group.group_id, group.owner_epoch
            await store.delete_offsets(*owner, self.some_partitions())
            await store.delete_groups(dict([owner]))
        await store.expire_offsets(0)

    async def replace_topic(self, store: MetadataStore) -> None:
        made = await create_partitions(store, 2)
        lasting, gone = self.partitions[:4], self.partitions[4:6]
        self.partitions = [*lasting, *self.partitions[6:], *made]
        await store.delete_topic(gone[0].topic_id)

    async def forget(self, store: MetadataStore) -> None:
        await store.forget_transactional_ids(self.random.choice([100, 1000]))
        await store.overdue_transactions(10)

    async def watch(self, store: MetadataStore) -> None:
        """See that what was stable stays so."""
        for partition, offsets in (await store.partition_offsets(self.partitions)).items():
            assert offsets.last_stable_offset <= offsets.high_watermark
            assert offsets.last_stable_offset >= self.last_stable_offsets.get(partition, 0)
            self.last_stable_offsets[partition] = offsets.last_stable_offset


async def finish(load: Load, store: MetadataStore) -> None:
    """End all transactions."""
    for name in TRANSACTIONAL_IDS:
        outcome = await init(store, name)
        if outcome.verdict is Verdict.OPEN:
            assert outcome.producer is not None
            load.note_end(outcome.producer, await end(store, outcome.producer, committed=True))


async def test_nobody_deadlocks_and_nothing_is_behind_its_marker(
    dsn: str, brokers: list[MetadataStore]
) -> None:
    # Given four topics, and somebody who looks at all tables at once
    store = brokers[0]
    load = Load([each for _ in range(4) for each in await create_partitions(store, 2)])
    connection: Connection = await asyncpg.connect(dsn)

    async def look(_store: MetadataStore) -> None:
        assert not await connection.fetchval(CONTRADICTIONS)
        assert not await connection.fetchval(STRAY_OFFSETS)

    # When brokers run transactions and fence them, while groups and topics come and go
    turns = Turns[MetadataStore](LOAD_S)
    await turns.take(
        [
            *((load.transact, broker) for broker in brokers),
            *((load.start_over, broker) for broker in brokers),
            (load.write_plainly, brokers[0]),
            (load.remove_groups, brokers[1]),
            (load.replace_topic, brokers[2]),
            (load.forget, brokers[3]),
            (load.watch, brokers[0]),
            (look, brokers[1]),
        ]
    )

    # Then every one of them got on, none was chosen as the victim of a deadlock
    assert len(turns.done) == 8
    assert min(turns.done.values()) >= ENOUGH, turns.done
    assert not await connection.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )

    # And when all transactions have ended, everything is stable, and nothing of them is left
    await finish(load, store)
    for offsets in (await store.partition_offsets(load.partitions)).values():
        assert offsets.last_stable_offset == offsets.high_watermark
    for table in ("transaction_partitions", "transaction_groups", "transaction_offsets"):
        assert not await connection.fetchval(f"SELECT count(*) FROM streamhouse_internal.{table}")
    await look(store)
    await connection.close()

    # And the logs have no gap, and every batch lies before the marker of its transaction
    for partition in load.partitions:
        await whole_log(store, partition)
    assert load.appended
    for (producer, partition), base_offsets in load.appended.items():
        if partition in load.partitions:
            assert max(base_offsets) < load.ended[producer][partition]
