"""What only Postgres can do to segments: locks, and what people see of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import pytest

from protocol.ids import Partition
from sql import query
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.metadata_postgres_segments import to_arguments
from storage.metadata.segments import SegmentSwap
from storage.metadata.tasks import TaskKind
from storage.postgres.postgres_connection import Connection, connect
from tests.contracts.metadata_stores import a_batch, create_partitions, reserved
from tests.contracts.segment_side import a_swap, row_of
from tests.support.patience import PATIENCE_S, PATIENT
from tests.support.postgres import create_database, until

pytestmark = pytest.mark.usefixtures("patience")

HOUR_MS = 3_600_000


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
async def other(dsn: str) -> AsyncIterator[Connection]:
    """A session of another broker."""
    session = await connect(dsn, PATIENT)
    yield session
    await session.close()


@asynccontextmanager
async def waiting(dsn: str, function: str) -> AsyncIterator[None]:
    """Wait until a call of `function` waits for a lock."""
    watcher: Connection = await asyncpg.connect(dsn)

    async def probe() -> int | None:
        pid: int | None = await watcher.fetchval(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database() AND query LIKE '%' || $1 || '%'",
            function,
        )
        return pid

    await until(probe)
    yield
    await watcher.close()


async def states(session: Connection, *paths: str) -> list[str]:
    rows = await session.fetch("SELECT path, state FROM streamhouse.objects")
    found = {row["path"]: row["state"] for row in rows}
    return [found[path] for path in paths]


async def swap_of(store: PostgresMetadata, partition: Partition) -> SegmentSwap:
    """Reserve a segment in the place of all rows of a partition."""
    rows = await store.segments_from(partition, 0, 99)
    path = await store.reserve_segment(partition, rows[0].start_offset, rows[-1].end_offset)
    assert path is not None
    return a_swap(partition, path, rows)


async def shared_object(store: PostgresMetadata, partitions: Sequence[Partition]) -> str:
    """Commit an object with a batch of each partition."""
    path = await reserved(store)
    batches = [a_batch(each, 100 * number) for number, each in enumerate(sorted(partitions))]
    await store.commit_object(path, 100 * len(partitions), batches)
    return path


async def test_the_last_two_rows_of_an_object_go_at_once(
    dsn: str, store: PostgresMetadata, other: Connection
) -> None:
    # Given an object with a row in each of two partitions, both about to be built
    partitions = await create_partitions(store, 2)
    path = await shared_object(store, partitions)
    swaps = [await swap_of(store, partition) for partition in partitions]

    # When one broker, which sees the other row, releases the object while another replaces that row
    answer = await other.fetchrow(query("segment_replace"), *to_arguments(swaps[0]))
    assert answer is not None
    assert answer["replaced"]
    transaction = other.transaction()
    await transaction.start()
    assert await other.fetchval(query("object_release"), answer["released"]) == 0
    second = asyncio.create_task(store.replace_segments(swaps[1]))
    async with waiting(dsn, "release_objects"):
        await transaction.commit()

    # Then the one that comes later sees that no row is left
    assert await second
    assert await states(other, path, swaps[0].path, swaps[1].path) == ["doomed", "live", "live"]


async def test_a_swap_meets_the_deletion_of_its_topic(
    dsn: str, store: PostgresMetadata, other: Connection
) -> None:
    # Given a topic that is being deleted
    (partition,) = await create_partitions(store, 1)
    path = await shared_object(store, [partition])
    swap = await swap_of(store, partition)
    transaction = other.transaction()
    await transaction.start()
    assert await other.fetchval(query("topic_delete"), partition.topic_id)

    # When a segment of it is swapped in at that moment
    swapping = asyncio.create_task(store.replace_segments(swap))
    async with waiting(dsn, "replace_segments"):
        await transaction.commit()

    # Then its upload is given up; nobody sees what the index still has, and purge takes it away
    assert not await swapping
    assert await store.find_timestamp(partition, 0) is None
    assert await store.find_max_timestamp(partition) is None
    assert await states(other, path, swap.path) == ["live", "doomed"]
    assert await store.purge(99) == 1
    assert await states(other, path) == ["doomed"]


async def test_a_swap_that_is_repeated_while_it_happens_waits_for_its_answer(
    dsn: str, store: PostgresMetadata, other: Connection
) -> None:
    # Given a swap whose answer is on its way
    (partition,) = await create_partitions(store, 1)
    await shared_object(store, [partition])
    swap = await swap_of(store, partition)
    transaction = other.transaction()
    await transaction.start()
    assert await other.fetchval(query("segment_replace"), *to_arguments(swap))

    # When it is repeated, then the answer is the same
    again = asyncio.create_task(store.replace_segments(swap))
    async with waiting(dsn, "replace_segments"):
        await transaction.commit()
    assert await again
    assert await store.segments_from(partition, 0, 9) == [row_of(swap)]


async def test_a_task_that_is_being_claimed_is_nobody_elses(
    store: PostgresMetadata, other: Connection
) -> None:
    # Given two tasks, one of which another broker is about to claim
    partitions = await create_partitions(store, 2)
    await store.add_tasks(TaskKind.BUILD, partitions)
    transaction = other.transaction()
    await transaction.start()
    row = await other.fetchrow(query("task_claim"), "build", HOUR_MS)
    assert row is not None

    # When this one claims, then it gets the other task, and then none, without waiting
    async with asyncio.timeout(PATIENCE_S / 2):
        claimed = await store.claim_task(TaskKind.BUILD, HOUR_MS)
        assert claimed is not None
        assert {claimed, Partition(*row)} == set(partitions)
        assert await store.claim_task(TaskKind.BUILD, HOUR_MS) is None

    # And if the other one dies before it has it, then it is there again
    await transaction.rollback()
    assert await store.claim_task(TaskKind.BUILD, HOUR_MS) == Partition(*row)


async def test_an_upload_that_is_being_committed_is_not_given_up(
    store: PostgresMetadata, other: Connection
) -> None:
    # Given two uploads, one of which somebody else holds
    held, left = [await reserved(store) for _ in range(2)]
    async with other.transaction():
        await other.execute(
            "SELECT FROM streamhouse_internal.objects WHERE path = $1 FOR UPDATE", held
        )

        # When all are given up, then it is left, without waiting
        async with asyncio.timeout(PATIENCE_S / 2):
            assert await store.doom_abandoned(0, 9) == 1
    assert await states(other, held, left) == ["pending", "doomed"]


async def test_brokers_that_reserve_at_once_get_different_paths(store: PostgresMetadata) -> None:
    # When the first segments of a topic are reserved at the same time
    first, second = await create_partitions(store, 2)
    wanted = [(each, 0, end) for each in (first, second) for end in (9, 9, 19)]
    paths = await asyncio.gather(*(store.reserve_segment(*each) for each in wanted))

    # Then all lie in its folder, and none is another's
    folder = await store.topic_folder(first.topic_id)
    assert len({path for path in paths if path is not None and path.startswith(f"{folder}/")}) == 6


async def test_people_see_segments_and_objects(store: PostgresMetadata, other: Connection) -> None:
    # Given a segment, and a row that is not built
    (partition,) = await create_partitions(store, 1)
    await shared_object(store, [partition])
    swap = await swap_of(store, partition)
    assert await store.replace_segments(swap)
    path = await shared_object(store, [partition])

    # When they are looked up in the public schema, then they are there
    rows = await other.fetch(
        "SELECT path, start_offset, built FROM streamhouse.segments ORDER BY start_offset"
    )
    assert [tuple(row) for row in rows] == [(swap.path, 0, True), (path, 10, False)]
    rows = await other.fetch(
        "SELECT path, state, size FROM streamhouse.objects "
        "WHERE state = 'live' AND created_at <= now() ORDER BY path"
    )
    assert [tuple(row) for row in rows] == [(swap.path, "live", swap.size), (path, "live", 100)]


async def test_a_row_names_no_object_that_is_doomed_by_chance(
    store: PostgresMetadata, other: Connection
) -> None:
    # Given an object that lost one of its two rows
    first, second = await create_partitions(store, 2)
    path = await shared_object(store, [first, second])
    assert await store.replace_segments(await swap_of(store, first))

    # When live objects are looked at, and what lies before log starts is removed
    assert await store.doom_unneeded(0, 0, 99) == (0, None)
    assert await store.purge(99) == 0
    assert await states(other, path) == ["live"]
    await store.delete_records({second: 10})
    assert await store.purge(99) == 1
    assert await states(other, path) == ["doomed"]
