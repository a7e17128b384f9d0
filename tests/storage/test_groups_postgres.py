"""What only Postgres can do to a write of groups: locks, lost answers, deletions on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from protocol.ids import Partition
from sql import query
from storage.errors import MetadataUnavailable, RowsHeld
from storage.metadata import metadata_postgres_groups
from storage.metadata.groups import GroupWrite
from storage.metadata.metadata_group_writes import in_order, to_arguments
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres import postgres_connection
from storage.postgres.postgres_connection import Connection
from tests.contracts.group_stores import NOTHING, Groups, a_commit, a_record, fenced, unknown
from tests.contracts.metadata_stores import a_batch, commit, create_partitions, short
from tests.support.patience import PATIENT
from tests.support.postgres import create_database, until

pytestmark = pytest.mark.usefixtures("patience")


class Database:
    """A store of groups, and a second session beside it."""

    def __init__(self, dsn: str, store: PostgresMetadata, other: Connection) -> None:
        self.dsn = dsn
        self.store = store
        self.other = other
        self.groups = Groups(store, self._no_time)

    async def _no_time(self, milliseconds: int) -> None:
        raise AssertionError(f"nobody waits {milliseconds} ms here")

    @asynccontextmanager
    async def holding(self, group_id: str) -> AsyncIterator[None]:
        """Hold the lock of a group's row, as a slow write would."""
        async with self.other.transaction():
            await self.other.execute(
                "SELECT FROM streamhouse_internal.groups WHERE group_id = $1 FOR NO KEY UPDATE",
                group_id,
            )
            yield

    async def blocked(self, function: str) -> int:
        """Wait until a call of `function` waits for a lock; return the pid of its backend."""
        watcher: Connection = await asyncpg.connect(self.dsn)

        async def probe() -> int | None:
            pid: int | None = await watcher.fetchval(
                "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                "AND datname = current_database() AND query LIKE '%' || $1 || '%'",
                function,
            )
            return pid

        try:
            return await until(probe)
        finally:
            await watcher.close()

    async def write_in_other_session(self, write: GroupWrite) -> asyncpg.Record:
        """Write as another broker would, in whatever transaction that session has open."""
        row = await self.other.fetchrow(query("group_write"), *to_arguments(in_order([write])))
        assert row is not None
        return row

    async def offset_rows(self) -> int:
        found: int = await self.other.fetchval(
            "SELECT count(*) FROM streamhouse_internal.group_offsets"
        )
        return found


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    """An empty database."""
    dsn = await create_database()
    store = await PostgresMetadata.open(dsn, PATIENT)
    other: Connection = await asyncpg.connect(dsn)
    yield Database(dsn, store, other)
    await other.close()
    await store.close()


async def test_a_write_that_is_overtaken_while_it_waits_is_fenced(database: Database) -> None:
    # Given a write that waits for the row of its group
    (partition,) = await create_partitions(database.store, 1)
    epoch = await database.groups.take("g")
    async with database.holding("g"):
        waiting = asyncio.create_task(database.groups.commit("g", epoch, {partition: 1}))
        await database.blocked("write_groups")

        # When the group is taken by who holds that row
        await database.other.execute(query("group_take"), ["g"], True)

    # Then nothing is written
    assert await waiting == fenced("g")
    assert await database.groups.committed("g") == {}


async def test_a_write_whose_row_is_held_for_too_long_may_be_repeated(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a group whose row somebody holds for longer than it is waited for
    monkeypatch.setattr(postgres_connection, "LOCK_TIMEOUT_S", 1.0)
    (partition,) = await create_partitions(database.store, 1)
    epoch = await database.groups.take("g")
    async with database.holding("g"):
        # When it is written
        with pytest.raises(RowsHeld):
            await database.groups.commit("g", epoch, {partition: 1})

    # Then nothing has happened, and nothing will: it is written under the same epoch afterwards
    assert await database.groups.committed("g") == {}
    await database.groups.commit("g", epoch, {partition: 2})
    assert await database.groups.committed("g") == {partition: 2}


async def test_a_taker_waits_for_a_write_and_sees_it(database: Database) -> None:
    # Given a write that is under way
    epoch = await database.groups.take("g")
    write = GroupWrite(group_id="g", owner_epoch=epoch, record=a_record("g"), offsets={})
    transaction = database.other.transaction()
    await transaction.start()
    await database.write_in_other_session(write)

    # When the group is taken meanwhile, with or without leave to make it
    takers = [
        asyncio.create_task(database.store.take_groups(["g"], create=create))
        for create in (True, False)
    ]
    await database.blocked("take_groups")
    await transaction.commit()

    # Then each taker has the record, and an epoch of its own
    taken = [group for taker in takers for group in await taker]
    assert [group.record for group in taken] == [write.record, write.record]
    assert len({epoch, *(group.owner_epoch for group in taken)}) == 3


async def test_writes_of_one_broker_keep_their_order(database: Database) -> None:
    # Given many writes called one after the other without waiting
    (partition,) = await create_partitions(database.store, 1)
    epoch = await database.groups.take("g")
    calls = [database.groups.commit("g", epoch, {partition: offset}) for offset in range(50)]

    # When all are answered, then the last one stands
    assert set(await asyncio.gather(*calls)) == {NOTHING}
    assert await database.groups.committed("g") == {partition: 49}


async def test_nothing_overtakes_a_write_that_got_no_answer(database: Database) -> None:
    # Given a write that waits in the server, and others behind it
    (partition,) = await create_partitions(database.store, 1)
    groups = database.groups
    epoch, bystander = await groups.take("g"), await groups.take("h")
    async with database.holding("g"):
        lost = asyncio.create_task(groups.commit("g", epoch, {partition: 1}))
        backend = await database.blocked("write_groups")
        behind = asyncio.create_task(groups.commit("g", epoch, {partition: 2}))
        beside = asyncio.create_task(groups.commit("h", bystander, {partition: 3}))

        # When its backend is killed
        await database.other.execute("SELECT pg_terminate_backend($1)", backend)
        with pytest.raises(MetadataUnavailable):
            await lost

        # Then those of its group are not tried, and others are
        with pytest.raises(MetadataUnavailable, match="taken again"):
            await behind
        assert await beside == NOTHING

    # And after the group was taken again, everything goes on
    epoch = await groups.take("g")
    assert await groups.commit("g", epoch, {partition: 4}) == NOTHING
    assert await groups.committed("g") == {partition: 4}


async def test_a_topic_deleted_while_a_commit_is_in_flight_leaves_no_offset(
    database: Database,
) -> None:
    # Given a group's first commit of a topic, not yet complete
    (partition,) = await create_partitions(database.store, 1)
    epoch = await database.groups.take("g")
    transaction = database.other.transaction()
    await transaction.start()
    answer = await database.write_in_other_session(a_commit("g", epoch, {partition: 1}))
    assert (answer["fenced"], answer["unknown"]) == ([], [])

    # When the topic is deleted, then that waits, and takes the offset with it
    deletion = asyncio.create_task(database.store.delete_topic(partition.topic_id))
    await database.blocked("delete_topic")
    await transaction.commit()
    await deletion
    assert await database.offset_rows() == 0


@pytest.mark.parametrize("committed_before", [False, True])
async def test_a_commit_while_a_topic_is_deleted_leaves_no_offset(
    database: Database, committed_before: bool
) -> None:
    # Given a topic that is just being deleted, committed before or not
    (partition,) = await create_partitions(database.store, 1)
    (kept,) = await create_partitions(database.store, 1)
    epoch = await database.groups.take("g")
    if committed_before:
        await database.groups.commit("g", epoch, {partition: 1})
    transaction = database.other.transaction()
    await transaction.start()
    await database.other.execute(query("topic_delete"), partition.topic_id)

    # When a group commits it, then it waits at most for the group's row, never for the topic's
    waiting = asyncio.create_task(database.groups.commit("g", epoch, {partition: 2, kept: 3}))
    if committed_before:
        await database.blocked("write_groups")
        await transaction.commit()
        assert await waiting == unknown(partition)
    else:
        assert await waiting == unknown(partition)
        await transaction.commit()

    # And nothing of the topic is left
    assert await database.groups.committed("g") == {kept: 3}
    assert await database.offset_rows() == 1


async def test_commits_of_offsets_and_of_records_do_not_wait_for_each_other(
    database: Database,
) -> None:
    # Given a partition whose row a slow commit of records holds
    store = database.store
    (partition,) = await create_partitions(store, 1)
    epoch, other = await database.groups.take("g"), await database.groups.take("h")
    async with database.other.transaction():
        await database.other.execute("SELECT FROM streamhouse_internal.partitions FOR UPDATE")

        # When a group commits it for the first time, and again, then it does not wait
        assert await database.groups.commit("g", epoch, {partition: 1}) == NOTHING
        assert await database.groups.commit("g", epoch, {partition: 2}) == NOTHING

    # Nor the other way round, nor does a change of the topic
    async with database.other.transaction():
        await database.write_in_other_session(a_commit("h", other, {partition: 1}))
        (outcome,) = await commit(store, [a_batch(partition, 0)])
        assert short(outcome) == 0
        await store.add_partitions(partition.topic_id, 2)


async def test_a_write_is_one_statement(database: Database) -> None:
    # Given a broker that wrote before, so that its session is there
    partitions = await create_partitions(database.store, 10)
    names = [f"group-{number}" for number in range(100)]
    taken = await database.store.take_groups(names, create=True)
    await database.groups.commit("nobody", 1, {})
    session = database.store._group_writer._connection._connection
    assert session is not None
    statements: list[str] = []
    session.add_query_logger(lambda record: statements.append(record.query))

    # When a hundred groups commit ten partitions each
    writes = [
        GroupWrite(
            group_id=group.group_id,
            owner_epoch=group.owner_epoch,
            record=a_record(group.group_id),
            offsets=a_commit("", 0, dict.fromkeys(partitions, 7)).offsets,
        )
        for group in taken
    ]
    assert await database.store.write_groups(writes) == NOTHING

    # Then that was one statement (the logger is called a little later)
    async def told() -> bool | None:
        return bool(statements) or None

    await until(told)
    assert statements == [query("group_write")]
    assert await database.offset_rows() == 1000


async def test_old_offsets_go_in_small_steps(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given groups with more old offsets than one step forgets, one group in somebody's hands
    monkeypatch.setattr("storage.metadata.metadata_postgres_groups.MAX_GROUPS_PER_EXPIRY", 3)
    monkeypatch.setattr("storage.metadata.metadata_postgres_groups.MAX_OFFSETS_PER_EXPIRY", 7)
    partitions = await create_partitions(database.store, 10)
    names = ["", *(f"group-{number}" for number in range(9))]
    for name in names:
        epoch = await database.groups.take(name)
        await database.groups.commit(name, epoch, dict.fromkeys(partitions, 1))
    await database.other.execute(
        "UPDATE streamhouse_internal.groups SET touched_at = touched_at - interval '8 days'"
    )
    await database.other.execute(
        "UPDATE streamhouse_internal.group_offsets SET committed_at = now() - interval '8 days'"
    )

    # When they expire, then nobody waits, and all but the one that is held are gone
    week_ms = 7 * 24 * 60 * 60 * 1000
    async with database.holding("group-4"):
        assert await database.store.expire_offsets(week_ms) == 9 * 11
    assert await database.groups.ids() == ["group-4"]
    assert await database.offset_rows() == 10
    assert await database.store.expire_offsets(week_ms) == 11
    assert await database.offset_rows() == 0


async def test_lag_is_seen_in_records_and_in_seconds(database: Database) -> None:
    # Given two runs of ten records, produced 100 and 40 seconds ago
    store = database.store
    first, second, empty, timeless = await create_partitions(store, 4)
    now_s: float = await database.other.fetchval("SELECT extract(epoch FROM now())::float8")
    for age_s in (100, 40):
        stamp = int((now_s - age_s) * 1000)
        await commit(store, [a_batch(each, 0, timestamp_ms=stamp) for each in (first, second)])
    await commit(store, [a_batch(timeless, 0, timestamp_ms=-1)])
    epoch = await database.groups.take("g")
    committed: dict[Partition, int] = {first: 3, second: 10, empty: 0, timeless: 4}
    await database.groups.commit("g", epoch, committed)
    await database.groups.commit("h", await database.groups.take("h"), {first: 20, second: 19})

    # When lag is looked up, then it is exact in records, and in seconds as far as the index goes
    rows = await database.other.fetch(
        "SELECT group_id, partition, committed_offset, log_end_offset, lag, lag_seconds::float8 "
        "FROM streamhouse.group_lag ORDER BY group_id, partition"
    )
    assert [tuple(row)[:5] for row in rows] == [
        ("g", 0, 3, 20, 17),
        ("g", 1, 10, 20, 10),
        ("g", 2, 0, 0, 0),
        ("g", 3, 4, 10, 6),
        ("h", 0, 20, 20, 0),
        ("h", 1, 19, 20, 1),
    ]
    ages = [row["lag_seconds"] for row in rows]
    assert ages[2:5] == [0, None, 0]
    for age, expected in zip((ages[0], ages[1], ages[5]), (100, 40, 40), strict=True):
        assert expected - 1 < age < expected + 60

    # And groups and their offsets are there to be seen, too
    groups = await database.other.fetch("SELECT * FROM streamhouse.groups ORDER BY group_id")
    assert [tuple(row) for row in groups] == [
        ("g", "Classic", "Empty", "", 0, 0),
        ("h", "Classic", "Empty", "", 0, 0),
    ]
    offsets = await database.other.fetch(
        "SELECT partition, committed_offset FROM streamhouse.group_offsets WHERE group_id = 'g' "
        "ORDER BY partition"
    )
    assert [tuple(row) for row in offsets] == [(0, 3), (1, 10), (2, 0), (3, 4)]


async def test_groups_that_somebody_holds_are_left_when_others_are_deleted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given groups with an offset each, of which somebody holds one
    groups, store = database.groups, database.store
    (partition,) = await create_partitions(store, 1)
    owned = {name: await groups.take(name) for name in ("a", "b", "c", "d")}
    for name, owner_epoch in owned.items():
        await groups.commit(name, owner_epoch, {partition: 1})
    async with database.holding("b"):
        # When all are deleted, then the others are, and nobody waits for it
        gone = await store.delete_groups({name: owned[name] for name in ("a", "b", "c")})
        assert gone == {"a": True, "c": True}

        # When it is the first, then it is waited for
        deleting = asyncio.create_task(store.delete_groups({name: owned[name] for name in "bd"}))
        await database.blocked("delete_groups")
        monkeypatch.setattr(metadata_postgres_groups, "MAX_OFFSETS_PER_DELETE", 1)
    assert await deleting == {"b": True, "d": True}

    # When many offsets are gone, then the groups that follow are left, too
    owned = {name: await groups.take(name) for name in ("e", "f")}
    await groups.commit("e", owned["e"], {partition: 1})
    assert await store.delete_groups(owned) == {"e": True}
    assert await store.delete_groups(owned) == {"e": False, "f": True}
    assert await database.offset_rows() == 0
