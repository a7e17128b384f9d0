"""How the statements of the background work reach rows in big tables."""

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from protocol.ids import Partition
from sql import query
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.metadata_postgres_segments import to_arguments
from storage.metadata.segments import RetentionRequest
from storage.postgres.postgres_connection import Connection, connect
from storage.segment_entry import SegmentEntry
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.retention import Retention
from tests.contracts.metadata_stores import a_batch, commit, create_partitions
from tests.contracts.segment_side import a_swap
from tests.storage.table_reads import table_reads
from tests.support.patience import PATIENT
from tests.support.postgres import create_database, until

TABLES = [
    "objects",
    "partitions",
    "segments",
    "aborted_transactions",
    "producers",
    "topics",
    "topics_deleted",
    "topic_folders",
    "storage_tasks",
]
HOUR_MS = 3_600_000
FILL = """
    INSERT INTO streamhouse_internal.objects (path, state)
    SELECT 'wal/filled-' || n, 'live' FROM generate_series(1, 4000) AS n;
    INSERT INTO streamhouse_internal.segments (
        topic_id, partition, start_offset, end_offset, object_id, byte_start, byte_length,
        max_timestamp_ms
    )
    SELECT p.topic_id, p.partition, n * 10 - 10, n * 10 - 1, (
        SELECT o.object_id FROM streamhouse_internal.objects AS o
        WHERE o.path = 'wal/filled-' || (n * 2 - p.partition % 2)
    ), 0, 100, n
    FROM streamhouse_internal.partitions AS p, generate_series(1, 2000) AS n
    WHERE p.high_watermark = 0;
    INSERT INTO streamhouse_internal.aborted_transactions (
        topic_id, partition, last_offset, producer_id, first_offset, last_stable_offset
    )
    SELECT p.topic_id, p.partition, n * 10 - 1, n, n * 10 - 10, n * 10
    FROM streamhouse_internal.partitions AS p, generate_series(1, 2000) AS n
    WHERE p.high_watermark = 0;
    INSERT INTO streamhouse_internal.producers (
        topic_id, partition, producer_id, producer_epoch, last_sequence, next_slot,
        first_sequences, last_sequences, base_offsets
    )
    SELECT p.topic_id, p.partition, n, 0, 0, 1,
        '{-1,-1,-1,-1,-1}', '{-1,-1,-1,-1,-1}', '{-1,-1,-1,-1,-1}'
    FROM streamhouse_internal.partitions AS p, generate_series(1, 500) AS n
    WHERE p.high_watermark = 0;
    UPDATE streamhouse_internal.partitions SET high_watermark = 20000 WHERE high_watermark = 0;
    INSERT INTO streamhouse_internal.storage_tasks (kind, topic_id, partition)
    SELECT 'build', gen_random_uuid(), n FROM generate_series(1, 3000) AS n;
    INSERT INTO streamhouse_internal.objects (path)
    SELECT 'wal/filled-pending-' || n FROM generate_series(1, 3000) AS n;
"""

MANY_ROWS = """
    WITH many AS (
        INSERT INTO streamhouse_internal.objects (path, state) VALUES ('wal/many', 'live')
        RETURNING object_id
    )
    INSERT INTO streamhouse_internal.segments (
        topic_id, partition, start_offset, end_offset, object_id, byte_start, byte_length,
        max_timestamp_ms
    )
    SELECT p.topic_id, p.partition, n * 10 - 10, n * 10 - 1, many.object_id, 0, 100, n
    FROM many, streamhouse_internal.partitions AS p, generate_series(1, 110000) AS n;
    UPDATE streamhouse_internal.partitions SET high_watermark = 1100000;
"""


PRODUCERS = 3000
EVERY_SECOND_IS_OLD = """
    INSERT INTO streamhouse_internal.producers (
        topic_id, partition, producer_id, producer_epoch, last_sequence, next_slot,
        first_sequences, last_sequences, base_offsets, updated_at
    )
    SELECT p.topic_id, p.partition, n, 0, 0, 1,
        '{-1,-1,-1,-1,-1}', '{-1,-1,-1,-1,-1}', '{-1,-1,-1,-1,-1}',
        clock_timestamp() - n % 2 * interval '1 day'
    FROM streamhouse_internal.partitions AS p, generate_series(1, $1) AS n
"""


@pytest.fixture
async def dsn() -> str:
    """Address of a fresh database with the current schema."""
    return await create_database()


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresMetadata]:
    """A store on it."""
    opened = await PostgresMetadata.open(dsn, PATIENT)
    yield opened
    await opened.close()


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Connection]:
    """A session as a broker has it."""
    opened = await connect(dsn, PATIENT)
    yield opened
    await opened.close()


async def purge(session: Connection, name: str) -> tuple[bool, int]:
    """Remove rows, and release their objects; return whether any were left, and how many."""
    answer = await one(session, name, 5)
    await session.fetch(query("object_release"), answer["released"] or [])
    return answer["any_left"], answer["removed"]


async def use_everything(session: Connection, name: str) -> None:
    """Run every statement of the background work on a topic of its own, on this session."""
    row = await session.fetchrow(query("topic_create"), name, 1, 1, "{}")
    assert row is not None
    partition = Partition(row["topic_id"], 0)
    entries = [await write(session, partition, f"wal/{name}-{number}") for number in range(3)]
    await session.fetch(query("partition_find_unbuilt"), *before(partition), 1, 9)
    path = await session.fetchval(query("segment_reserve"), *partition, 0, 19)
    swap = a_swap(partition, path, entries[:2])
    answer = await one(session, "segment_replace", *to_arguments(swap))
    assert answer["replaced"]
    await session.fetch(query("object_release"), answer["released"])
    (built,) = await session.fetch(query("segment_find_before"), *partition, 20, 9)
    assert (built["path"], built["index_length"]) == (path, 40)
    assert len(await session.fetch(query("segment_find_from"), *partition, 0, 9)) == 2
    topic_ids = [partition.topic_id]
    (clean,) = await session.fetch(query("partition_find_cleanable"), topic_ids, [0])
    assert clean["dirty_size"] == 100
    await session.fetch(query("partition_set_compacted"), *partition, 20, 1)
    assert len(await session.fetch(query("object_find_stored"), [path])) == 1
    assert await session.fetch(query("partition_step_over"), *partition, 15, 24)
    await session.fetch(query("task_add"), name, topic_ids, [0])
    assert await session.fetchval(query("task_claim"), name, HOUR_MS) == partition.topic_id
    await session.fetch(query("task_finish"), name, *partition)
    assert await session.fetch(query("task_begin_round"), name, HOUR_MS)
    (moved,) = await session.fetch(query("partition_expire_records"), topic_ids, [0], [1], [150])
    assert moved["log_start_offset"] == 30
    assert await purge(session, "partition_purge") == (True, 2)
    assert await purge(session, "partition_purge") == (False, 0)
    await write(session, partition, f"wal/{name}-last")
    await session.fetch(query("object_reserve"), [f"wal/{name}-abandoned"])
    assert len(await session.fetch(query("object_doom_abandoned"), 0, 1)) == 1
    doomed = await session.fetch(query("object_find_doomed"), 0, 9)
    assert len(doomed) == 5
    await session.fetch(query("object_postpone"), [doomed[0]["path"]], 0)
    await session.fetch(query("object_forget"), [each["path"] for each in doomed])
    last_id = await session.fetchval("SELECT max(object_id) FROM streamhouse_internal.objects")
    assert (await one(session, "object_doom_unneeded", last_id - 1, 0, 9))["doomed"] == 0
    await session.fetch(query("producer_expire"), HOUR_MS, *partition, -1, 5, 5)
    assert await session.fetchval(query("topic_delete"), partition.topic_id)
    assert await purge(session, "topic_purge") == (True, 1)
    assert await session.fetchval(query("topic_find_folder"), partition.topic_id)
    await session.fetch(query("object_forget"), [f"wal/{name}-last"])


async def one(session: Connection, name: str, *arguments: object) -> asyncpg.Record:
    (row,) = await session.fetch(query(name), *arguments)
    return row


def before(partition: Partition) -> Partition:
    """The key just before that of a partition."""
    return Partition(partition.topic_id, partition.index - 1)


async def write(session: Connection, partition: Partition, path: str) -> SegmentEntry:
    """Append a row of ten records."""
    start = await session.fetchval(
        "UPDATE streamhouse_internal.partitions SET high_watermark = high_watermark + 10 "
        "WHERE topic_id = $1 AND partition = $2 RETURNING high_watermark - 10",
        *partition,
    )
    await session.execute(
        "WITH made AS (INSERT INTO streamhouse_internal.objects (path, state) VALUES ($4, 'live') "
        "RETURNING object_id) INSERT INTO streamhouse_internal.segments (topic_id, partition, "
        "start_offset, end_offset, object_id, byte_start, byte_length, max_timestamp_ms) "
        "SELECT $1, $2, $3::bigint, $3::bigint + 9, object_id, 0, 100, 0 FROM made",
        *partition,
        start,
        path,
    )
    return SegmentEntry(
        start_offset=start, end_offset=start + 9, path=path, start=0, length=100, max_timestamp_ms=0
    )


async def test_rows_are_reached_by_key(session: Connection) -> None:
    """A session keeps its plans: those made on all but empty tables must do for full ones."""
    # Given a session that used every statement when there was next to nothing
    await session.execute("VACUUM ANALYZE")
    await use_everything(session, "first")

    # When there are thousands of rows of each kind
    await session.fetch(query("topic_create"), "big", 8, 1, "{}")
    await session.execute(FILL)

    # Then a use of every statement reads a handful of rows
    before_use = await table_reads(session, TABLES)
    assert len(before_use) == len(TABLES)
    await use_everything(session, "second")
    after = await table_reads(session, TABLES)
    for table, (scans, entries) in after.items():
        assert scans == before_use[table][0], table
        assert entries - before_use[table][1] < 200, table


async def test_retention_looks_at_what_it_removes_or_keeps(
    store: PostgresMetadata, session: Connection
) -> None:
    # Given partitions with two thousand rows of 100 bytes each
    row = await session.fetchrow(query("topic_create"), "big", 8, 1, "{}")
    assert row is not None
    await session.execute(FILL)
    partition = Partition(row["topic_id"], 3)
    before_use = await table_reads(session, TABLES)

    # When ten are too old, and in another partition twenty are enough
    requests = [
        RetentionRequest(partition=partition, before_ms=11, keep_bytes=None),
        RetentionRequest(
            partition=Partition(row["topic_id"], 4), before_ms=None, keep_bytes=20 * 100
        ),
    ]
    moved = await store.expire_records(requests)
    assert sorted(moved.values()) == [100, 19_800]

    # Then no more were looked at
    after = await table_reads(session, TABLES)
    assert after["segments"][1] - before_use["segments"][1] < 50
    assert after["segments"][0] == before_use["segments"][0]

    # And they are removed in steps, with their aborted transactions, from the oldest one on
    removed = []
    while (step := await one(session, "partition_purge", 700))["any_left"]:
        removed.append(step["removed"])
    assert sum(removed) == 2 * (10 + 1980)
    assert max(removed) == 700


async def test_retention_by_size_keeps_as_many_rows_as_it_takes(
    store: PostgresMetadata, session: Connection
) -> None:
    # Given a partition with 110,000 rows of 100 bytes each
    row = await session.fetchrow(query("topic_create"), "big", 1, 1, "{}")
    assert row is not None
    await session.execute(MANY_ROWS)
    partition = Partition(row["topic_id"], 0)

    # When it may keep more of them than are looked at in one go, then the others go
    for keep_rows, moved in (
        (200_000, {}),
        (105_000, {partition: 50_000}),
        (100_000, {partition: 100_000}),
        (30_000, {partition: 800_000}),
        (29_999, {partition: 800_010}),
        (1, {partition: 1_099_990}),
    ):
        request = RetentionRequest(
            partition=partition, before_ms=None, keep_bytes=keep_rows * 100 - 1
        )
        assert await store.expire_records([request]) == moved


async def test_producers_are_forgotten_in_one_walk(
    store: PostgresMetadata, session: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given many producers' states, every second one of them old
    await create_partitions(store, 1)
    await session.execute(EVERY_SECOND_IS_OLD, PRODUCERS)
    asked: list[str] = []
    fetch = store._steps.fetch

    async def fetch_counted(name: str, *arguments: object) -> list[asyncpg.Record]:
        asked.append(name)
        return await fetch(name, *arguments)

    monkeypatch.setattr(store._steps, "fetch", fetch_counted)

    # When retention goes over all of them
    async def no_policies() -> list[tuple[UUID, TopicPolicy]]:
        return []

    retention = Retention(metadata=store, policies=no_policies, producer_unused_ms=lambda: HOUR_MS)
    done = await retention.run()

    # Then the old ones are gone, and each step went on where the last one had ended
    assert done.producers == PRODUCERS // 2
    assert 1 < asked.count("producer_expire") <= 4


async def test_commits_go_on_in_one_page_while_logs_are_retained(
    store: PostgresMetadata, session: Connection
) -> None:
    # Given a partition in whose page there is room
    (partition,) = await create_partitions(store, 1)
    moves = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'partitions'"

    # When records are committed, then no index has to be touched for it
    for _ in range(5):
        await commit(store, [a_batch(partition, 0)])

    async def flushed() -> asyncpg.Record | None:
        row = await session.fetchrow(moves)
        return row if row is not None and row["n_tup_upd"] >= 5 else None

    await store._commits.fetch("cluster_id")
    async with store._commits._turn:
        assert store._commits._connection is not None
        await store._commits._connection.execute("SELECT pg_stat_force_next_flush()")
    found = await until(flushed)
    assert tuple(found) == (5, 5)
