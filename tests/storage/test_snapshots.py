"""Snapshots in Postgres: one moment over all partitions, what it keeps, and when it ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import asyncpg
import pytest

from protocol.ids import Partition
from sql import query
from storage.postgres.postgres_connection import Connection
from storage.segment_entry import SegmentEntry
from storage.snapshots import (
    InvalidSnapshotId,
    SnapshotExists,
    Snapshots,
    SnapshotTopicsMissing,
    UnknownSnapshot,
)
from tests.contracts.metadata_stores import a_batch, commit
from tests.contracts.segment_side import a_swap, row_of
from tests.contracts.transaction_stores import Transactions, open_transactions
from tests.support.patience import PATIENT

pytestmark = pytest.mark.usefixtures("patience")

AGE = """
    UPDATE streamhouse_internal.snapshots
    SET expires_at = clock_timestamp() - interval '1 second' WHERE snapshot_id = ANY ($1)
"""
ROWS = """
    SELECT (SELECT count(*) FROM streamhouse_internal.snapshots),
        (SELECT count(*) FROM streamhouse_internal.snapshot_partitions),
        (SELECT count(*) FROM streamhouse_internal.snapshot_transactions)
"""


@dataclass(frozen=True, slots=True)
class World:
    """A database with its log and its snapshots; `db` looks behind them."""

    opened: Transactions
    snapshots: Snapshots
    db: Connection

    async def topic(self, name: str, partition_count: int = 1) -> list[Partition]:
        topic = await self.opened.store.create_topic(
            name, partition_count=partition_count, replication_factor=1, configs={}
        )
        return [Partition(topic.topic_id, number) for number in range(partition_count)]

    async def write(self, *partitions: Partition, records: int = 10) -> None:
        """Commit one object with a batch in each."""
        batches = [
            a_batch(each, 100 * place, records=records)
            for place, each in enumerate(sorted(partitions))
        ]
        outcomes = await commit(self.opened.store, batches)
        assert all(outcome.refusal is None for outcome in outcomes)

    async def replace(self, partition: Partition, *, compacts: bool) -> SegmentEntry:
        """Put a segment in the place of all of a partition's rows; return its row."""
        store = self.opened.store
        rows = await store.segments_from(partition, 0, 100)
        path = await store.reserve_segment(partition, rows[0].start_offset, rows[-1].end_offset)
        assert path is not None
        swap = replace(a_swap(partition, path, rows), compacts=compacts)
        assert await store.replace_segments(swap)
        return row_of(swap)


def nodes_of(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return a node of a plan, as EXPLAIN tells it, and all below it."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes_of(below)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_transactions("postgres") as opened:
        assert opened.groups.dsn is not None
        connection: Connection = await asyncpg.connect(opened.groups.dsn)
        config = replace(PATIENT, pool_size=1)
        try:
            async with Snapshots.open(opened.groups.dsn, config) as snapshots:
                yield World(opened, snapshots, connection)
        finally:
            await connection.close()


async def test_a_snapshot_keeps_where_topics_were(world: World) -> None:
    # Given two topics with records
    orders, payments = await world.topic("orders", 2), await world.topic("payments")
    await world.write(orders[0], payments[0])
    await world.write(orders[1], records=3)

    # When a snapshot is made, and records come afterwards
    made = await world.snapshots.create("first", None, retention_ms=None)
    await world.write(*orders, *payments)

    # Then it is of the moment before
    assert (made.topics, made.partition_count) == (["orders", "payments"], 3)
    assert made.expires_at is None
    found = await world.snapshots.partitions("first")
    assert [(one.topic, one.partition, one.high_watermark) for one in found] == [
        ("orders", 0, 10),
        ("orders", 1, 3),
        ("payments", 0, 10),
    ]
    assert not any(one.lost or one.compacted for one in found)
    # and people see it, too
    rows = await world.db.fetch("SELECT topic, high_watermark FROM streamhouse.snapshots")
    assert sorted(map(tuple, rows)) == [("orders", 3), ("orders", 10), ("payments", 10)]


async def test_what_was_committed_together_is_in_it_together(world: World) -> None:
    # Given somebody who always writes to partitions of two topics at once
    partitions = [*await world.topic("orders", 3), *await world.topic("payments", 3)]
    written = asyncio.Event()

    async def write() -> None:
        for _ in range(150):
            await world.write(*partitions, records=1)
        written.set()

    # When snapshots are made meanwhile
    writer = asyncio.create_task(write())
    ends = set()
    made = 0
    while not written.is_set():
        await world.snapshots.create(f"s{made}", None, retention_ms=None)
        found = await world.snapshots.partitions(f"s{made}")
        ends.add(frozenset(one.high_watermark for one in found))
        made += 1
    await writer

    # Then all six partitions are at the same place in each of them, and not always at the same
    assert all(len(each) == 1 for each in ends), ends
    assert len(ends) > 2


async def test_open_transactions_are_written_down_and_ended_ones_are_whole(world: World) -> None:
    # Given an open transaction in one partition, and behind it one over two topics that has ended
    (orders,), (payments,) = await world.topic("orders"), await world.topic("payments")
    slow, quick = await world.opened.producer("slow"), await world.opened.producer("quick")
    assert await world.opened.send(slow, orders) == 0
    assert await world.opened.send(quick, orders) == 10
    assert await world.opened.send(quick, payments) == 0
    await world.opened.goes_on(quick)

    # When a snapshot is made, and the open one ends
    await world.snapshots.create("cut", ["orders", "payments"], retention_ms=None)
    await world.opened.goes_on(slow)

    # Then it ends behind all of the ended one, and still tells what was open
    found = {one.topic: one.high_watermark for one in await world.snapshots.partitions("cut")}
    assert found == {"orders": 21, "payments": 11}
    (unfinished,) = await world.snapshots.open_transactions("cut")
    assert (unfinished.topic_id, unfinished.producer_id) == (orders.topic_id, slow.producer_id)
    assert unfinished.first_offset == 0


async def test_it_tells_what_retention_and_deletion_took(world: World) -> None:
    # Given a snapshot of two topics
    (orders,), (payments,) = await world.topic("orders"), await world.topic("payments")
    await world.write(orders, payments)
    await world.snapshots.create("cut", None, retention_ms=None)

    # When records are deleted from one, and the other goes and is made again
    await world.opened.store.delete_records({orders: 4})
    await world.opened.store.delete_topic(payments.topic_id)
    (again,) = await world.topic("payments")
    await world.write(again, records=50)

    # Then both are counted as lost, and the new topic is not taken for the old one
    found = {one.topic: one for one in await world.snapshots.partitions("cut")}
    assert (found["orders"].first_offset, found["orders"].lost) == (4, 4)
    assert (found["payments"].first_offset, found["payments"].lost) == (None, 10)
    assert found["payments"].topic_id == payments.topic_id != again.topic_id


async def test_it_tells_that_compaction_came(world: World) -> None:
    # Given a partition that was compacted before a snapshot
    (orders,) = await world.topic("orders")
    await world.write(orders)
    await world.opened.store.set_compacted(orders, 5, cleaned_ms=None)
    await world.snapshots.create("cut", None, retention_ms=None)
    assert not (await world.snapshots.partitions("cut"))[0].compacted

    # When it is compacted again, then the snapshot tells so
    await world.opened.store.set_compacted(orders, 10, cleaned_ms=None)
    assert (await world.snapshots.partitions("cut"))[0].compacted


async def test_it_tells_that_compaction_took_records_before_it_came_to_its_end(
    world: World,
) -> None:
    # Given a snapshot of a partition whose records are built into a segment later
    (orders,) = await world.topic("orders")
    await world.write(orders)
    await world.snapshots.create("cut", None, retention_ms=None)
    built = await world.replace(orders, compacts=False)
    assert not (await world.snapshots.partitions("cut"))[0].compacted

    # When a round of compaction writes that anew, then the snapshot tells so
    assert await world.replace(orders, compacts=True) != built
    assert (await world.snapshots.partitions("cut"))[0].compacted


async def test_the_next_one_removes_what_has_expired(world: World) -> None:
    # Given snapshots of which two have expired
    await world.topic("orders", 4)
    for name in ("old", "older", "kept", "endless"):
        retention_ms = None if name == "endless" else 3_600_000
        made = await world.snapshots.create(name, None, retention_ms=retention_ms)
        assert (made.expires_at is None) == (name == "endless")
    await world.db.execute(AGE, ["old", "older"])

    # Then they cannot be read, though they are still there
    assert [one.snapshot_id for one in await world.snapshots.find_all()] == ["kept", "endless"]
    assert await world.snapshots.partitions("old") == []
    with pytest.raises(UnknownSnapshot):
        await world.snapshots.describe("old")
    assert tuple((await world.db.fetch(ROWS))[0]) == (4, 16, 0)

    # When one is made, even under the name of one of them, then they are gone
    await world.snapshots.create("old", None, retention_ms=None)
    assert tuple((await world.db.fetch(ROWS))[0]) == (3, 12, 0)


async def test_what_cannot_be_made_leaves_nothing(world: World) -> None:
    # Given a topic and a snapshot
    await world.topic("orders")
    await world.snapshots.create("taken", ["orders"], retention_ms=None)

    # When others are made that cannot be, then they say why
    with pytest.raises(SnapshotExists):
        await world.snapshots.create("taken", ["orders"], retention_ms=None)
    with pytest.raises(SnapshotTopicsMissing, match="absent, missing"):
        await world.snapshots.create("x", ["missing", "orders", "absent"], retention_ms=None)
    for name in ("1st", "", "a b", "x" * 101):
        with pytest.raises(InvalidSnapshotId):
            await world.snapshots.create(name, ["orders"], retention_ms=None)

    # Then there is but the first
    assert tuple((await world.db.fetch(ROWS))[0]) == (1, 1, 0)


async def test_a_deleted_snapshot_is_gone(world: World) -> None:
    # Given a snapshot with an open transaction
    (orders,) = await world.topic("orders")
    await world.opened.send(await world.opened.producer(), orders)
    await world.snapshots.create("cut", None, retention_ms=None)
    assert tuple((await world.db.fetch(ROWS))[0]) == (1, 1, 1)

    # When it is deleted, then nothing of it is left, and it cannot be deleted again
    await world.snapshots.delete("cut")
    assert tuple((await world.db.fetch(ROWS))[0]) == (0, 0, 0)
    with pytest.raises(UnknownSnapshot):
        await world.snapshots.delete("cut")


async def test_who_lists_snapshots_sorts_no_partitions(world: World) -> None:
    # Given snapshots of two topics with many partitions, and a server that has counted none of them
    await world.db.execute("VACUUM ANALYZE")
    for name in ("orders", "clicks"):
        await world.topic(name, 500)
    for snapshot_id in ("first", "second", "third"):
        await world.snapshots.create(snapshot_id, None, retention_ms=None)

    # When they are listed
    async with world.snapshots._pool._connection() as session:
        await session.execute(f"PREPARE list (text) AS {query('snapshot_list')}")
        told = await session.fetchval("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE list (NULL)")
    nodes = list(nodes_of(json.loads(told)[0]["Plan"]))

    # Then all partitions are read, but only snapshots and topics sorted, if anything
    rows = [(node["Node Type"], node["Actual Rows"] * node["Actual Loops"]) for node in nodes]
    assert max(count for _, count in rows) == 3 * 2 * 500
    assert sum(count for kind, count in rows if "Sort" in kind) <= 3 + 3 * 2
