"""Groups, topics and records changed by many at once, and how rows are reached in big tables."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random

import asyncpg
import pytest

from protocol.ids import Partition
from sql import query
from storage.metadata.groups import GroupWrite
from storage.metadata.metadata_group_writes import in_order, to_arguments
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres.postgres_connection import Connection, connect
from tests.contracts.group_stores import Groups, a_commit, a_record
from tests.contracts.metadata_stores import a_batch, commit, create_partitions
from tests.storage.load_turns import ENOUGH, Turns
from tests.storage.server_cpu import server_cpu_s
from tests.storage.table_reads import table_reads
from tests.support.patience import PATIENT
from tests.support.postgres import create_database

pytestmark = pytest.mark.usefixtures("patience")

LOAD_S = 3.0
LOCKED_S = 30.0
DAY_MS = 86_400_000
GROUPS = [f"group-{number}" for number in range(6)]
TABLES = ["groups", "group_offsets", "topics"]


async def no_time(milliseconds: int) -> None:
    raise AssertionError(f"nobody waits {milliseconds} ms here")


@pytest.fixture
async def dsn() -> str:
    """Address of a fresh database with the current schema."""
    return await create_database()


@pytest.fixture
async def brokers(dsn: str) -> AsyncIterator[list[Groups]]:
    """Three stores on one database."""
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(3):
            store = await PostgresMetadata.open(dsn, PATIENT)
            stack.push_async_callback(store.close)
            opened.append(Groups(store, no_time))
        yield opened


class Load:
    """What brokers do at the same time; each method does one thing once."""

    def __init__(self, partitions: list[Partition]) -> None:
        self.random = Random(7)
        self.partitions = partitions

    def some(self, names: list[str]) -> list[str]:
        return self.random.sample(names, self.random.randint(1, len(names)))

    async def take_and_write(self, broker: Groups) -> None:
        taken = await broker.store.take_groups(self.some(GROUPS), create=True)
        for _ in range(3):
            chosen = self.random.sample(self.partitions, min(4, len(self.partitions)))
            await broker.store.write_groups(
                [
                    a_commit(group.group_id, group.owner_epoch, dict.fromkeys(chosen, 1))
                    for group in self.random.sample(taken, len(taken))
                ]
            )

    async def take_and_remove(self, broker: Groups) -> None:
        taken = await broker.store.take_groups(self.some(GROUPS), create=False)
        for group in taken:
            await broker.save(group.group_id, group.owner_epoch)
            await broker.store.expire_left_topics(group.group_id, group.owner_epoch, [], 0)
            await broker.store.delete_offsets(
                group.group_id, group.owner_epoch, self.partitions[:2]
            )
        self.random.shuffle(taken)
        await broker.store.delete_groups({group.group_id: group.owner_epoch for group in taken})

    async def expire(self, broker: Groups) -> None:
        await broker.store.expire_offsets(0)

    async def commit_records(self, broker: Groups) -> None:
        chosen = sorted(self.partitions)
        await commit(broker.store, [a_batch(each, 100 * n) for n, each in enumerate(chosen)])

    async def replace_topic(self, broker: Groups) -> None:
        made = await create_partitions(broker.store, 2)
        gone = self.partitions[:2]
        self.partitions = [*self.partitions[2:], *made]
        await broker.store.add_partitions(made[0].topic_id, 3)
        await broker.store.delete_topic(gone[0].topic_id)


async def waits(dsn: str, count: int) -> None:
    """Return when so many sessions wait for a lock."""
    connection: Connection = await asyncpg.connect(dsn)
    async with asyncio.timeout(LOCKED_S):
        while (
            await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            != count
        ):
            await asyncio.sleep(0.01)
    await connection.close()


async def test_a_group_that_is_made_while_others_are_taken_is_no_deadlock(
    dsn: str, brokers: list[Groups]
) -> None:
    # Given who takes two groups, of which the first does not exist, and waits for the second
    first, second, third = (broker.store for broker in brokers)
    (later,) = await first.take_groups(["later"], create=True)
    holder: Connection = await asyncpg.connect(dsn)
    await holder.execute("BEGIN; SELECT FROM streamhouse_internal.groups FOR UPDATE")
    taking = asyncio.create_task(second.take_groups(["first", "later"], create=False))
    await waits(dsn, 1)

    # When the first one is made, and another writes to both, which waits behind it
    (made,) = await third.take_groups(["first"], create=True)
    (partition,) = await create_partitions(third, 1)
    commits = [
        a_commit(group.group_id, group.owner_epoch, {partition: 1}) for group in (made, later)
    ]
    writing = asyncio.create_task(third.write_groups(commits))
    await waits(dsn, 2)
    await holder.execute("COMMIT")

    # Then the one that it waited for is taken, and what is written comes after that
    assert [group.group_id for group in await taking] == ["later"]
    assert (await writing).fenced == {"later"}
    await holder.close()


async def test_a_group_that_is_made_again_while_a_topic_is_deleted_is_no_deadlock(
    dsn: str, brokers: list[Groups]
) -> None:
    # Given two groups with offsets of a topic, and who deletes the first, not quite yet
    first, second, third = (broker.store for broker in brokers)
    gone, kept = (await create_partitions(first, 1))[0], (await create_partitions(first, 1))[0]
    groups = await first.take_groups(["first", "later"], create=True)
    await first.write_groups(
        [a_commit(group.group_id, group.owner_epoch, {gone: 1}) for group in groups]
    )
    deleter: Connection = await asyncpg.connect(dsn)
    await deleter.execute("BEGIN")
    await deleter.fetch(query("group_delete"), [groups[0].group_id], [groups[0].owner_epoch], 9)
    holder: Connection = await asyncpg.connect(dsn)
    await holder.execute(
        "BEGIN; SELECT FROM streamhouse_internal.groups WHERE group_id = 'later' FOR UPDATE"
    )

    # When the topic is deleted, which waits for both in turn, and the first is made again
    deleting = asyncio.create_task(second.delete_topic(gone.topic_id))
    await waits(dsn, 1)
    await deleter.execute("COMMIT")
    (made,) = await third.take_groups(["first"], create=True)
    commits = [
        a_commit(group.group_id, group.owner_epoch, {kept: 1}) for group in (made, groups[1])
    ]
    writing = asyncio.create_task(third.write_groups(commits))
    await waits(dsn, 2)
    await holder.execute("COMMIT")

    # Then the topic is gone, and both groups have what was written
    await deleting
    assert not (await writing).fenced
    await deleter.close()
    await holder.close()


async def test_nobody_deadlocks_and_no_offset_outlives_its_topic(
    dsn: str, brokers: list[Groups]
) -> None:
    # Given six topics
    partitions = [
        partition for _ in range(6) for partition in await create_partitions(brokers[0].store, 2)
    ]
    load, turns = Load(partitions), Turns[Groups](LOAD_S)

    # When brokers take, write, remove and expire groups, commit records and replace topics
    await turns.take(
        [
            *((load.take_and_write, broker) for broker in brokers),
            *((load.commit_records, broker) for broker in brokers),
            (load.take_and_remove, brokers[0]),
            (load.expire, brokers[1]),
            (load.replace_topic, brokers[2]),
        ]
    )

    # Then every one of them got on, none was chosen as the victim of a deadlock
    assert len(turns.done) == 5
    assert min(turns.done.values()) >= ENOUGH, turns.done
    connection: Connection = await asyncpg.connect(dsn)
    assert not await connection.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )

    # And every offset is of a group and of a partition that exist
    assert not await connection.fetchval(
        "SELECT count(*) FROM streamhouse_internal.group_offsets AS o "
        "WHERE NOT EXISTS (SELECT FROM streamhouse_internal.partitions AS p "
        "WHERE p.topic_id = o.topic_id AND p.partition = o.partition) "
        "OR NOT EXISTS (SELECT FROM streamhouse_internal.groups AS g "
        "WHERE g.group_id = o.group_id)"
    )
    await connection.close()


async def use_everything(session: Connection, group_id: str) -> None:
    """Run every statement of groups, but those that look at all groups, on this session."""
    partition, doomed = [await create_topic(session, f"{group_id}-{n}") for n in range(2)]
    await session.fetch(query("group_take"), [group_id], False)
    (row,) = await session.fetch(query("group_take"), [group_id], True)
    write = GroupWrite(
        group_id=group_id,
        owner_epoch=row["owner_epoch"],
        record=a_record(group_id),
        offsets=a_commit("", 0, {partition: 1, doomed: 2}).offsets,
    )
    for _ in range(2):
        answer = await session.fetchrow(query("group_write"), *to_arguments([write]))
        assert answer is not None
        assert (answer["fenced"], answer["unknown"]) == ([], [])
    columns = [partition.topic_id], [partition.index]
    assert len(await session.fetch(query("group_find_offsets"), group_id, *columns)) == 1
    assert len(await session.fetch(query("group_find_all_offsets"), group_id)) == 2
    owner = group_id, row["owner_epoch"]
    read = [f"{group_id}-0", f"{group_id}-1"]
    assert await session.fetchval(query("group_expire_left_topics"), *owner, read, 0) == 0
    assert await session.fetchval(query("topic_delete"), doomed.topic_id)
    assert len(await session.fetch(query("group_find_all_offsets"), group_id)) == 1
    assert await session.fetchval(query("group_delete_offsets"), *owner, *columns)
    (row,) = await session.fetch(query("group_delete"), [owner[0]], [owner[1]], 9)
    assert row["deleted"]


async def create_topic(session: Connection, name: str) -> Partition:
    row = await session.fetchrow(query("topic_create"), name, 1, 1, "{}")
    assert row is not None
    return Partition(row["topic_id"], 0)


async def test_rows_are_reached_by_key(dsn: str) -> None:
    """A session keeps its plans: those made on all but empty tables must do for full ones."""
    # Given a session that used every statement when there was one group, and one topic
    session = await connect(dsn, PATIENT)
    await create_topic(session, "only")
    await session.fetch(query("group_take"), ["only"], True)
    await session.execute("VACUUM ANALYZE")
    await use_everything(session, "first")

    # When there are thousands of groups and offsets
    row = await session.fetchrow(query("topic_create"), "big", 5, 1, "{}")
    assert row is not None
    partitions = [Partition(row["topic_id"], index) for index in range(5)]
    names = [f"group-{number:04}" for number in range(2000)]
    taken = await session.fetch(query("group_take"), names, True)
    writes = [
        a_commit(each["group_id"], each["owner_epoch"], dict.fromkeys(partitions, 1))
        for each in taken
    ]
    await session.fetch(query("group_write"), *to_arguments(in_order(writes)))

    # Then a use of every statement reads a handful of rows
    before = await table_reads(session, TABLES)
    assert len(before) == len(TABLES)
    await use_everything(session, "group-0999x")
    after = await table_reads(session, TABLES)
    for table, (scans, entries) in after.items():
        assert scans == before[table][0], table
        assert entries - before[table][1] < 60, table

    # And those that look at all groups do it by key, too
    assert len(await session.fetch(query("group_list"), "", 3000)) == 2001
    expired = await session.fetchrow(query("group_expire_offsets"), 0, "", 100, 200)
    assert expired is not None
    assert tuple(expired) == ("", 200, 0)
    final = await table_reads(session, TABLES)
    assert {table: scans for table, (scans, _) in final.items()} == {
        table: scans for table, (scans, _) in before.items()
    }
    assert final["group_offsets"][1] - after["group_offsets"][1] < 2000
    await session.close()


async def test_what_a_group_has_left_is_found_soon_however_many_topics_it_reads(dsn: str) -> None:
    # Given two groups that committed offsets of many topics long ago, and read them all
    session = await connect(dsn, PATIENT)
    names = [f"topic-{number:05}" for number in range(10_000)]
    few = names[:1_000]
    await session.execute(
        "INSERT INTO streamhouse_internal.topics "
        "SELECT gen_random_uuid(), name, 1, 1, '{}', 1 FROM unnest($1::text[]) AS t (name)",
        names,
    )

    async def forget(group_id: str, read: list[str], *, times: int) -> float:
        """Expire what the group has left, which is nothing; return the server's CPU time for it."""
        (row,) = await session.fetch(query("group_take"), [group_id], True)
        before_s = await server_cpu_s(session)
        for _ in range(times):
            assert not await session.fetchval(
                query("group_expire_left_topics"), group_id, row["owner_epoch"], read, DAY_MS
            )
        return (await server_cpu_s(session) - before_s) / times

    for group_id, read in (("few", few), ("many", names)):
        await session.execute(
            "INSERT INTO streamhouse_internal.group_offsets "
            "SELECT $1, topic_id, 0, 1, -1, '', now() - interval '8 days' "
            "FROM streamhouse_internal.topics JOIN unnest($2::text[]) AS t (name) USING (name)",
            group_id,
            read,
        )

    # When those are looked for that they have left, then ten times as many topics take not much
    # longer than ten times as long: to compare all with all would take a hundred times
    few_s = await forget("few", few, times=200)
    many_s = await forget("many", names, times=20)
    assert many_s < 30 * few_s
    await session.close()
