"""What only Postgres can do to a commit: concurrency, lost answers, dying backends."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from protocol.ids import Partition
from storage.config import PostgresConfig
from storage.errors import MetadataUnavailable
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from storage.metadata.metadata_postgres_topics import MAX_PARTITIONS_PER_STEP
from storage.postgres import postgres_connection
from storage.postgres.postgres_connection import Connection
from tests.contracts.metadata_stores import (
    a_batch,
    commit,
    create_partitions,
    reserved,
    short,
    whole_log,
)
from tests.storage.postgres_commits import connected, locked, retried
from tests.storage.server_cpu import server_cpu_s
from tests.support.lossy_proxy import LossyProxy
from tests.support.patience import PATIENT
from tests.support.postgres import (
    blocked_commit,
    create_database,
    postgres_server,
    short_directory,
    until,
)

pytestmark = pytest.mark.usefixtures("patience")

COMMITTERS = 8


async def test_committers_neither_deadlock_nor_leave_gaps() -> None:
    # Given eight brokers, and four partitions
    dsn = await create_database()
    async with connected(dsn) as store:
        partitions = sorted(await create_partitions(store, 4))
        given: dict[Partition, list[int]] = {partition: [] for partition in partitions}

        async def broker(number: int) -> None:
            async with connected(dsn, replace(PATIENT, pool_size=1)) as own:
                for turn in range(12):
                    chosen = partitions if turn % 3 else partitions[number % 4 :]
                    batches = [
                        a_batch(
                            partition, 100 * n, producer=number, epoch=0, sequence=10 * (turn // 3)
                        )
                        if turn % 3 == 0
                        else a_batch(partition, 100 * n)
                        for n, partition in enumerate(chosen)
                    ]
                    outcomes = await commit(own, batches)
                    for partition, outcome in zip(chosen, outcomes, strict=True):
                        assert outcome.refusal is None
                        given[partition].append(outcome.base_offset)

        # When all commit to the same partitions at the same time
        async with asyncio.TaskGroup() as tasks:
            for number in range(COMMITTERS):
                tasks.create_task(broker(number))

        # Then no commit failed, and every offset was given out once
        for partition in partitions:
            await whole_log(store, partition)
            assert sorted(given[partition]) == list(range(0, 10 * len(given[partition]), 10))


async def test_commits_of_one_broker_keep_their_order() -> None:
    # Given many commits called one after the other without waiting
    async with connected(await create_database()) as store:
        (partition,) = await create_partitions(store, 1)
        paths = [await reserved(store) for _ in range(30)]
        calls = [store.commit_object(path, 100, [a_batch(partition, 0)]) for path in paths]

        # When all are answered, then their offsets ascend in that order
        outcomes = await asyncio.gather(*calls)
        assert [outcome.base_offset for (outcome,) in outcomes] == list(range(0, 300, 10))


async def test_a_commit_does_not_wait_for_the_deletion_of_records_elsewhere() -> None:
    # Given records to delete of two steps' partitions, the last of which somebody holds
    dsn = await create_database()
    async with connected(dsn) as store:
        partitions = await create_partitions(store, 2 * MAX_PARTITIONS_PER_STEP)
        for partition in (partitions[0], partitions[-1]):
            await commit(store, [a_batch(partition, 0)])
        async with locked(dsn, partitions[-1]):
            deleting = asyncio.create_task(store.delete_records(dict.fromkeys(partitions, -1)))

            async def first_step() -> bool:
                found = await store.partition_offsets(partitions[:1])
                return found[partitions[0]].log_start_offset == 10

            # When those of the first step are gone, then a commit there waits for nobody
            await until(first_step)
            (outcome,) = await commit(store, [a_batch(partitions[0], 0)])
            assert (short(outcome), outcome.log_start_offset) == (10, 10)
            assert not deleting.done()

        # And all are told of
        found = await deleting
        assert set(found) == set(partitions)
        assert found[partitions[-1]].log_start_offset == 10


async def test_a_commit_whose_backend_is_killed_can_be_repeated() -> None:
    # Given a commit that waits in the server
    dsn = await create_database()
    async with connected(dsn) as store:
        (partition,) = await create_partitions(store, 1)
        path = await reserved(store)
        batches = [a_batch(partition, 0, producer=1, epoch=0, sequence=0)]
        async with locked(dsn, partition) as other:
            waiting = asyncio.create_task(store.commit_object(path, 100, batches))
            backend = await blocked_commit(dsn)

            # When its backend is killed
            await other.execute("SELECT pg_terminate_backend($1)", backend)
            with pytest.raises(MetadataUnavailable):
                await waiting

        # Then the same call again puts it into the log, once
        assert [short(outcome) for outcome in await retried(store, path, batches)] == [0]
        assert [short(outcome) for outcome in await retried(store, path, batches)] == [0]
        assert len(await whole_log(store, partition)) == 1


async def test_a_commit_whose_answer_is_lost_can_be_repeated() -> None:
    # Given a broker behind a proxy that loses answers
    dsn = await create_database()
    server = postgres_server()
    with short_directory() as home:
        async with LossyProxy.between(home, server.directory) as proxy:
            behind = dsn.replace(f"host={server.directory}", f"host={home}")
            async with connected(behind) as store, connected(dsn) as direct:
                (partition,) = await create_partitions(store, 1)
                await commit(store, [a_batch(partition, 0)])
                path = await reserved(store)
                batches = [a_batch(partition, 0, producer=1, epoch=0, sequence=0)]

                # When its commit takes effect, but the answer is lost and the connection breaks
                proxy.lose_answers()
                waiting = asyncio.create_task(store.commit_object(path, 100, batches))

                async def committed() -> bool | None:
                    found = await direct.partition_offsets([partition])
                    return found[partition].high_watermark == 20 or None

                await until(committed)
                proxy.cut()
                with pytest.raises(MetadataUnavailable):
                    await waiting

                # Then the same call again is given the first answer
                assert [short(outcome) for outcome in await retried(store, path, batches)] == [10]
                assert len(await whole_log(store, partition)) == 2


async def test_a_commit_of_a_broker_that_went_away_may_still_happen_but_only_once() -> None:
    # Given a commit that waits in the server
    dsn = await create_database()
    async with connected(dsn) as store:
        (partition,) = await create_partitions(store, 1)
        path = await reserved(store)
        batches = [a_batch(partition, 0)]
        async with locked(dsn, partition):
            waiting = asyncio.create_task(store.commit_object(path, 100, batches))
            await blocked_commit(dsn)

            # When its caller is cancelled, and the call repeated while the first may still run
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            again = asyncio.create_task(retried(store, path, batches))
            await blocked_commit(dsn)

        # Then one of the two is in the log
        assert [short(outcome) for outcome in await again] == [0]
        assert len(await whole_log(store, partition)) == 1


async def test_a_lock_that_is_held_too_long_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a partition whose row somebody holds for longer than it is waited for
    monkeypatch.setattr(postgres_connection, "LOCK_TIMEOUT_S", 1.0)
    dsn = await create_database()
    async with connected(dsn) as store:
        (partition,) = await create_partitions(store, 1)
        path = await reserved(store)
        async with locked(dsn, partition):
            # When a commit needs it, then the wait ends with MetadataUnavailable
            with pytest.raises(MetadataUnavailable, match="LockNotAvailable"):
                await store.commit_object(path, 100, [a_batch(partition, 0)])

        # And the commit can be repeated
        assert [short(o) for o in await retried(store, path, [a_batch(partition, 0)])] == [0]


async def test_a_topic_can_be_deleted_while_it_is_written_to() -> None:
    # Given brokers that write to a topic of four partitions
    dsn = await create_database()
    async with connected(dsn) as store:
        partitions = await create_partitions(store, 4)
        batches = [a_batch(partition, 100 * n) for n, partition in enumerate(partitions)]

        async def broker() -> None:
            async with connected(dsn, replace(PATIENT, pool_size=1)) as own:
                while True:
                    words = {short(outcome) for outcome in await commit(own, batches)}
                    assert len(words) == 1  # all partitions alike: there, or gone
                    if words == {"UnknownPartition"}:
                        return

        # When it is deleted
        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(broker())
            await store.delete_topic(partitions[0].topic_id)

        # Then nothing of it is left
        connection: Connection = await asyncpg.connect(dsn)
        for table in ("partitions", "segments", "producers", "topics"):
            assert (
                await connection.fetchval(f"SELECT count(*) FROM streamhouse_internal.{table}") == 0
            )
        await connection.close()


async def test_no_change_of_a_topic_is_missed() -> None:
    # Given brokers that create topics, and one that asks again and again what is new
    dsn = await create_database()
    async with connected(dsn) as store:
        seen: set[str] = set()

        async def creator(number: int) -> None:
            async with connected(dsn, replace(PATIENT, pool_size=1)) as own:
                for turn in range(10):
                    await own.create_topic(
                        f"{number}-{turn}", partition_count=1, replication_factor=1, configs={}
                    )

        # When each asks only for what is newer than its last answer
        version = 0
        async with asyncio.TaskGroup() as tasks:
            creators = [tasks.create_task(creator(number)) for number in range(6)]
            while not all(task.done() for task in creators):
                changes = await store.topic_changes(version)
                version = changes.version
                seen |= {topic.name for topic in changes.changed}
        changes = await store.topic_changes(version)
        seen |= {topic.name for topic in changes.changed}

        # Then it hears of every one
        assert len(seen) == 60


async def test_configs_of_a_kind_that_a_later_version_has_are_not_looked_at() -> None:
    # Given a broker of a later version that has set something of a kind of its own
    dsn = await create_database()
    group = Entity(EntityKind.GROUP, "analytics")
    async with connected(dsn) as store:
        later: Connection = await asyncpg.connect(dsn)
        await later.execute(
            "SELECT streamhouse_internal.alter_entity_configs("
            "ARRAY['later'], ARRAY['x'], ARRAY['{\"a\": \"1\"}'::jsonb], ARRAY[false],"
            " ARRAY[null::jsonb])"
        )
        await later.close()

        # When this one asks what is set, then it hears of what it knows
        assert (await store.entity_config_changes(0)).configs == {}
        await store.alter_entity_configs([EntityChange(entity=group, changes={"a": "1"})])
        assert (await store.entity_config_changes(0)).configs == {group: {"a": "1"}}


async def test_ten_thousand_entities_can_be_changed_at_once() -> None:
    # Given a session that knows how to change the few entities that there are
    dsn = await create_database()
    few = [Entity(EntityKind.GROUP, f"group-{number}") for number in range(3)]
    many = [Entity(EntityKind.ACL, f"acl-{number}") for number in range(10_000)]
    watcher: Connection = await asyncpg.connect(dsn)
    async with connected(dsn, replace(PATIENT, pool_size=1)) as store:
        for turn in range(10):
            await store.alter_entity_configs(
                [EntityChange(entity=entity, changes={"a": str(turn)}) for entity in few]
            )

        # When it sets very many in one call, changes them all, and unsets what is set of them
        for value in ("1", "2", None):
            before_s = await server_cpu_s(watcher)
            altered = await store.alter_entity_configs(
                [EntityChange(entity=entity, changes={"a": value}) for entity in many]
            )

            # Then each is done before a broker's statement_timeout would end it
            assert altered == {entity: {} if value is None else {"a": value} for entity in many}
            took_s = await server_cpu_s(watcher) - before_s
            assert took_s < PostgresConfig().statement_timeout_s
    await watcher.close()
