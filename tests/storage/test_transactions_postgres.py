"""How transactions reach rows in big tables, and what people see of them."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from protocol.ids import Partition
from sql import query
from storage.metadata.groups import CommittedOffset, CommittedOffsets
from storage.metadata.metadata_commit import to_arguments
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import TransactionUse
from storage.metadata.transactions import (
    TransactionEnd,
    TransactionOffsets,
    TransactionOffsetsOutcome,
    Verdict,
)
from storage.postgres.postgres_connection import Connection, connect
from storage.postgres.postgres_pages import ROWS_OF_PAGE
from storage.postgres.postgres_rows import ROWS_AT_ONCE
from tests.contracts.metadata_stores import a_batch
from tests.storage.table_reads import table_reads
from tests.support.patience import PATIENT
from tests.support.postgres import create_database
from tests.support.turns import others_going_on

TABLES = [
    "transactions",
    "transaction_partitions",
    "transaction_groups",
    "transaction_offsets",
    "aborted_transactions",
    "partitions",
    "producers",
    "groups",
    "group_offsets",
    "topics",
    "objects",
    "segments",
]
HOUR_MS = 3_600_000
FRESH_ID = 10**9  # never needed here: no epoch is used up


@pytest.fixture
async def dsn() -> str:
    """Address of a fresh database with the current schema."""
    return await create_database()


async def create_topic(session: Connection, name: str, partition_count: int) -> list[Partition]:
    row = await session.fetchrow(query("topic_create"), name, partition_count, 1, "{}")
    assert row is not None
    return [Partition(row["topic_id"], index) for index in range(partition_count)]


async def begin(
    session: Connection, name: str, producer_id: int, partitions: list[Partition]
) -> None:
    """Open a transaction with records in partitions, and an offset of the group of its name."""
    identity = name, producer_id, 0
    owner_epoch = await take(session, name)
    await session.fetch(query("transaction_init_producer"), name, HOUR_MS, None, None, producer_id)
    columns = [each.topic_id for each in partitions], [each.index for each in partitions]
    assert await session.fetchval(query("transaction_add"), *identity, *columns, [name]) == 0
    path = f"wal/{name}"
    await session.fetch(query("object_reserve"), [path])
    batches = [
        a_batch(
            each,
            100 * number,
            producer=producer_id,
            owner=name,
            epoch=0,
            sequence=0,
            transaction=TransactionUse.ADDED,
        )
        for number, each in enumerate(partitions)
    ]
    answer = await session.fetchrow(query("object_commit"), path, 1000, *to_arguments(batches))
    assert answer is not None
    assert set(answer["outcomes"]) == {0}
    first = partitions[0]
    written = await session.fetchrow(
        query("transaction_write_offsets"),
        *identity,
        *(name, owner_epoch, False),
        *([first.topic_id], [first.index], [1], [-1], [""]),
    )
    assert written is not None
    assert tuple(written) == (0, [])


async def take(session: Connection, group_id: str) -> int:
    """Return the owner epoch of a group, made if it is not there."""
    (row,) = await session.fetch(query("group_take"), [group_id], True)
    owner_epoch: int = row["owner_epoch"]
    return owner_epoch


async def end(session: Connection, name: str, producer_id: int, *, committed: bool) -> None:
    answer = await session.fetchrow(
        query("transaction_end"),
        *(name, producer_id, 0),
        *(committed, True, False, False),
        *(b"marker", 0, FRESH_ID),
    )
    assert answer is not None
    assert answer["verdict"] == 0
    assert answer["topic_ids"]


async def use_everything(
    session: Connection, name: str, producer_id: int, shared: Partition
) -> None:
    """Run every statement of transactions, but those that look at all open ones, on this session.

    Args:
        shared: a partition that others use, too.
    """
    partitions = await create_topic(session, name, 2)
    await begin(session, name, producer_id, [*partitions, shared])
    topic_id = partitions[0].topic_id
    (found,) = await session.fetch(query("transaction_find"), [name])
    members = [*partitions, shared]
    assert sorted(zip(found["topic_ids"], found["partitions"], strict=True)) == sorted(members)
    assert await session.fetchval(query("transaction_find_id"), producer_id) == name
    listed = await session.fetch(query("transaction_list"), name, 2)
    assert listed[0]["transactional_id"] == name
    (producer,) = await session.fetch(query("producer_find"), [topic_id], [0], [-1], 2)
    assert producer["transaction_start_offset"] == 0
    (offset,) = await session.fetch(query("group_find_offsets"), name, [topic_id], [0])
    assert offset["unstable"]
    await end(session, name, producer_id, committed=False)
    assert len(await session.fetch(query("transaction_find_aborted"), topic_id, 0, 0, 99, 9)) == 1
    assert await session.fetch(query("group_find_all_offsets"), name) == []
    other = f"{name}-other"
    await begin(session, other, producer_id + 1, [shared, *partitions])
    (offset,) = await session.fetch(
        query("group_find_offsets"), other, [shared.topic_id], [shared.index]
    )
    assert offset["unstable"]
    await end(session, other, producer_id + 1, committed=True)
    assert len(await session.fetch(query("group_find_all_offsets"), other)) == 1
    assert await session.fetchval(query("topic_delete"), topic_id)
    owner_epoch = await take(session, other)
    (row,) = await session.fetch(query("group_delete"), [other], [owner_epoch], 9)
    assert row["deleted"]


async def test_rows_are_reached_by_key(dsn: str) -> None:
    """A session keeps its plans: those made on all but empty tables must do for full ones."""
    # Given a session that used every statement when there was one transaction
    session = await connect(dsn, PATIENT)
    only = await create_topic(session, "t", 1)
    await begin(session, "only", 1, only)
    await session.execute("VACUUM ANALYZE")
    await use_everything(session, "first", 2, only[0])

    # When there are hundreds of transactional ids, and half of their transactions are open
    partitions = await create_topic(session, "big", 3)
    names = [f"id-{number:04}" for number in range(600)]
    for number, name in enumerate(names):
        await begin(session, name, 1000 + number, partitions)
        if number % 2:
            await end(session, name, 1000 + number, committed=number % 4 == 1)

    # Then a use of every statement reads a handful of rows
    before = await table_reads(session, TABLES)
    assert len(before) == len(TABLES)
    await use_everything(session, "id-0300x", 10_000, partitions[0])
    after = await table_reads(session, TABLES)
    for table, (scans, entries) in after.items():
        assert scans == before[table][0], table
        assert entries - before[table][1] < 200, table

    # And so does the search for overdue ones, and for what was aborted in a range of offsets
    assert await session.fetch(query("transaction_find_overdue"), 10) == []
    topic_id = partitions[0].topic_id
    found = await session.fetch(query("transaction_find_aborted"), topic_id, 0, 30, 80, 100)
    assert [row["producer_id"] for row in found] == [1003, 1007]
    final = await table_reads(session, TABLES)
    assert final["transactions"][1] == after["transactions"][1]
    await session.close()


async def test_others_have_their_turns_while_ids_are_listed(dsn: str) -> None:
    # Given thousands of ids
    store = await PostgresMetadata.open(dsn, PATIENT)
    session = await connect(dsn, PATIENT)
    await session.execute(
        "INSERT INTO streamhouse_internal.transactions"
        " (transactional_id, producer_id, producer_epoch, timeout_ms, updated_at)"
        f" SELECT 'id-' || n, n, 0, 60000, now() FROM generate_series(1, {20 * ROWS_OF_PAGE}) AS n"
    )

    # When they are listed
    turns = itertools.count()
    async with others_going_on(turns):
        listed = [one async for one in store.list_transactions()]

    # Then nobody had to wait for more than a page of them
    assert len(listed) == 20 * ROWS_OF_PAGE
    assert next(turns) >= 20
    await session.close()
    await store.close()


async def test_others_have_their_turns_while_a_large_transaction_is_read(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a transaction with thousands of partitions, and what Postgres says of it
    store = await PostgresMetadata.open(dsn, PATIENT)
    session = await connect(dsn, PATIENT)
    partitions = await create_topic(session, "orders", 20 * ROWS_AT_ONCE)
    columns = [each.topic_id for each in partitions], [each.index for each in partitions]
    await session.fetch(query("transaction_init_producer"), "id", HOUR_MS, None, None, 0)
    await session.fetch(query("transaction_add"), "id", 0, 0, *columns, [])
    rows = await store._pool.fetch("transaction_find", ["id"])

    async def at_once(*_: object) -> list[asyncpg.Record]:
        return rows

    monkeypatch.setattr(store._pool, "fetch", at_once)

    # When that is read, then nobody had to wait for more than some of them
    turns = itertools.count()
    async with others_going_on(turns):
        (found,) = await store.find_transactions(["id"])
    assert found.partitions == partitions
    assert next(turns) >= 19  # between twenty pieces
    await session.close()
    await store.close()


async def test_people_see_transactions_and_what_is_stable(dsn: str) -> None:
    # Given a transaction that was committed, and one that is open
    session = await connect(dsn, PATIENT)
    partitions = await create_topic(session, "orders", 1)
    for number, name in enumerate(("done", "open")):
        await begin(session, name, number, partitions)
    await end(session, "done", 0, committed=True)
    await session.close()

    # When they are looked up in the public schema, then they are there
    people: Connection = await asyncpg.connect(dsn)
    rows = await people.fetch(
        "SELECT transactional_id, producer_id, producer_epoch, state, expires_at > started_at "
        "FROM streamhouse.transactions ORDER BY transactional_id"
    )
    assert [tuple(row) for row in rows] == [
        ("done", 0, 1, "CompleteCommit", None),
        ("open", 1, 0, "Ongoing", True),
    ]
    rows = await people.fetch(
        "SELECT topic, high_watermark, last_stable_offset FROM streamhouse.partitions"
    )
    assert [tuple(row) for row in rows] == [("orders", 21, 10)]
    rows = await people.fetch(
        "SELECT start_offset, path FROM streamhouse.segments ORDER BY start_offset"
    )
    assert [tuple(row) for row in rows] == [(0, "wal/done"), (10, "wal/open"), (20, None)]
    await people.close()


async def test_answers_of_before_are_repeated_without_what_is_stable(dsn: str) -> None:
    # Given an object that was committed when there were no transactions
    store = await PostgresMetadata.open(dsn, PATIENT)
    topic = await store.create_topic("t", partition_count=1, replication_factor=1, configs={})
    batches = [a_batch(Partition(topic.topic_id, 0), 0), a_batch(Partition(topic.topic_id, 0), 100)]
    await store.reserve_objects(["wal/old"])
    first = await store.commit_object("wal/old", 200, batches)
    people: Connection = await asyncpg.connect(dsn)
    await people.execute(
        "UPDATE streamhouse_internal.objects SET last_stable_offsets = NULL, aborted_counts = NULL"
    )
    await people.close()

    # When the commit is repeated, then the answer is the first one, but for what is stable
    again = await store.commit_object("wal/old", 200, batches)
    assert [each.base_offset for each in again] == [each.base_offset for each in first] == [0, 10]
    assert [(each.last_stable_offset, each.aborted_count) for each in first] == [(20, 0)] * 2
    assert [(each.last_stable_offset, each.aborted_count) for each in again] == [(-1, -1)] * 2
    await store.close()


async def test_many_offsets_are_not_written_with_one_statement(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that writes few offsets with one statement, and a producer
    monkeypatch.setattr("storage.metadata.metadata_postgres_transactions.MAX_OFFSETS", 2)
    store = await PostgresMetadata.open(dsn, PATIENT)
    topic = await store.create_topic("t", partition_count=5, replication_factor=1, configs={})
    (taken,) = await store.take_groups(["g"], create=True)
    outcome = await store.init_producer(
        "x", timeout_ms=HOUR_MS, expected=None, fresh_producer_id=FRESH_ID
    )
    assert outcome.producer is not None
    write = TransactionOffsets(
        producer=outcome.producer,
        group_id="g",
        owner_epoch=taken.owner_epoch,
        joins=True,
        offsets={Partition(topic.topic_id, at): CommittedOffset(offset=1) for at in range(5)},
    )
    written: list[list[int]] = []
    behind: list[Callable[[], Awaitable[object]]] = []
    fetch = store._steps.fetch_durable

    async def watched(name: str, *arguments: Any, **limits: Any) -> list[asyncpg.Record]:
        rows = await fetch(name, *arguments, **limits)
        if name == "transaction_write_offsets":
            written.append(arguments[7])
            while behind:
                await behind.pop()()
        return rows

    monkeypatch.setattr(store._steps, "fetch_durable", watched)

    # When it writes many, then there are several statements, between which others have their turns
    assert await store.write_transaction_offsets(write) == TransactionOffsetsOutcome(
        verdict=Verdict.DONE
    )
    assert written == [[0, 1], [2, 3], [4]]
    assert (await store.committed_offsets("g", None)).unstable == write.offsets.keys()

    # And where it is fenced meanwhile, then it is told, and writes no more
    behind.append(
        lambda: store.end_transaction(
            TransactionEnd(
                producer=write.producer,
                committed=False,
                bumps_epoch=True,
                fences=True,
                marker=b"marker",
                marker_timestamp_ms=0,
            )
        )
    )
    del written[:]
    assert (await store.write_transaction_offsets(write)).verdict is Verdict.FENCED
    assert written == [[0, 1], [2, 3]]
    assert await store.committed_offsets("g", None) == CommittedOffsets(
        offsets={}, unstable=frozenset()
    )
    await store.close()
