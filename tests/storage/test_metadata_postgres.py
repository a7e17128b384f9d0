"""What only Postgres can do to a commit: concurrency, lost answers, dying backends and servers."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from protocol.ids import Partition
from storage.config import PostgresConfig
from storage.errors import MetadataUnavailable
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import BatchCommit, BatchOutcome
from storage.postgres.postgres_connection import Connection
from storage.postgres.postgres_embedded import EmbeddedPostgres
from tests.contracts.metadata_stores import (
    CONFIG,
    a_batch,
    commit,
    create_partitions,
    reserved,
    short,
    whole_log,
)
from tests.support.lossy_proxy import LossyProxy
from tests.support.postgres import (
    blocked_commit,
    create_database,
    postgres_server,
    short_directory,
    until,
)

COMMITTERS = 8


@asynccontextmanager
async def connected(dsn: str, config: PostgresConfig = CONFIG) -> AsyncIterator[PostgresMetadata]:
    store = await PostgresMetadata.open(dsn, config)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def locked(dsn: str, partition: Partition) -> AsyncIterator[Connection]:
    """Hold the lock of a partition's row, as a slow commit would."""
    connection: Connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(
                "SELECT FROM streamhouse_internal.partitions "
                "WHERE topic_id = $1 AND partition = $2 FOR UPDATE",
                *partition,
            )
            yield connection
    finally:
        await connection.close()


async def retried(
    store: PostgresMetadata, path: str, batches: Sequence[BatchCommit]
) -> list[BatchOutcome]:
    """Do what the writer does: repeat the same call until there is an answer."""

    async def probe() -> list[BatchOutcome] | None:
        try:
            return await store.commit_object(path, 100, batches)
        except MetadataUnavailable:
            return None

    return await until(probe)


async def test_committers_neither_deadlock_nor_leave_gaps() -> None:
    # Given eight brokers, and four partitions
    dsn = await create_database()
    async with connected(dsn) as store:
        partitions = sorted(await create_partitions(store, 4))
        given: dict[Partition, list[int]] = {partition: [] for partition in partitions}

        async def broker(number: int) -> None:
            async with connected(dsn, replace(CONFIG, pool_size=1)) as own:
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


@pytest.mark.parametrize(
    "ask",
    [lambda store: store.topic_changes(0), lambda store: store.claim_store("a")],
    ids=["question", "durable_change"],
)
async def test_a_connection_that_breaks_is_told_as_that(
    ask: Callable[[PostgresMetadata], Coroutine[Any, Any, object]],
) -> None:
    # Given a broker that asks Postgres something, and waits
    dsn, server = await create_database(), postgres_server()
    with short_directory() as home:
        behind = dsn.replace(f"host={server.directory}", f"host={home}")
        async with LossyProxy.between(home, server.directory) as proxy, connected(behind) as store:
            await store.topic_changes(0)
            proxy.lose_answers()
            waiting = asyncio.create_task(ask(store))
            await asyncio.sleep(0.1)

            # When its connection breaks, then the reason is that
            proxy.cut()
            with pytest.raises(MetadataUnavailable, match="connection was closed"):
                await waiting


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


async def test_a_lock_that_is_held_too_long_is_no_answer() -> None:
    # Given a partition whose row somebody holds
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
            async with connected(dsn, replace(CONFIG, pool_size=1)) as own:
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
            async with connected(dsn, replace(CONFIG, pool_size=1)) as own:
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


async def test_a_killed_server_loses_no_commit() -> None:
    # Given a broker with its own Postgres, and a commit that waits in it
    with short_directory() as home:
        async with EmbeddedPostgres(home / "postgres") as server, connected(server.dsn) as store:
            (partition,) = await create_partitions(store, 1)
            await commit(store, [a_batch(partition, 0)])
            path = await reserved(store)
            batches = [a_batch(partition, 0, producer=1, epoch=0, sequence=0)]
            holder: Connection = await asyncpg.connect(server.dsn)
            await holder.execute("BEGIN; SELECT FROM streamhouse_internal.partitions FOR UPDATE")
            waiting = asyncio.create_task(store.commit_object(path, 100, batches))
            await blocked_commit(server.dsn)

            # When the server is killed
            os.kill(server.pid, signal.SIGKILL)
            with pytest.raises(MetadataUnavailable):
                await waiting
            holder.terminate()

            # Then it comes back, the same call succeeds, and what was answered before is there
            assert [short(outcome) for outcome in await retried(store, path, batches)] == [10]
            assert [short(outcome) for outcome in await retried(store, path, batches)] == [10]
            assert [entry.start_offset for entry in await whole_log(store, partition)] == [0, 10]


async def test_a_commit_that_its_standby_may_not_have_is_not_answered() -> None:
    # Given a server that waits for a synchronous standby, which is not there
    with short_directory() as home:
        async with EmbeddedPostgres(home / "postgres") as server, connected(server.dsn) as store:
            (partition,) = await create_partitions(store, 1)
            await commit(store, [a_batch(partition, 0)])
            path = await reserved(store)
            operator: Connection = await asyncpg.connect(server.dsn)
            await operator.execute("ALTER SYSTEM SET synchronous_standby_names = 'ghost'")
            await operator.close()
            await server.stop()
            await server.start()
            operator = await asyncpg.connect(server.dsn)
            waiting = asyncio.create_task(store.commit_object(path, 100, [a_batch(partition, 0)]))

            async def cancelled() -> bool | None:
                found: bool | None = await operator.fetchval(
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
                    "WHERE wait_event = 'SyncRep'"
                )
                return found

            # When somebody cancels that wait, after which the server reports success
            await until(cancelled)

            # Then the broker does not believe it
            with pytest.raises(MetadataUnavailable, match="synchronous replication"):
                await waiting

            # And the repeated call is answered when the standby is no longer asked for
            await operator.execute("ALTER SYSTEM RESET synchronous_standby_names")
            await operator.execute("SELECT pg_reload_conf()")
            again = await retried(store, path, [a_batch(partition, 0)])
            assert [short(outcome) for outcome in again] == [10]
            await operator.close()


async def test_a_session_is_bounded_and_durable() -> None:
    # Given a database whose owner does not care for durability
    dsn = await create_database()
    owner: Connection = await asyncpg.connect(dsn)
    name = await owner.fetchval("SELECT current_database()")
    await owner.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await owner.close()

    # When a broker connects, then its sessions are set up as they must be, also when used again
    async with connected(dsn) as store:
        for _ in range(3):
            async with store._pool._connection() as connection:
                names = ("statement_timeout", "lock_timeout", "client_connection_check_interval")
                shown = [await connection.fetchval(f"SHOW {name}") for name in names]
                assert shown == ["5s", "2s", "500ms"]
                assert await connection.fetchval("SHOW synchronous_commit") == "on"


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


async def test_nobody_there_is_unavailable_and_no_password_is_told() -> None:
    # Given an address where nobody listens
    with short_directory() as home:
        dsn = f"postgresql://somebody:hunter2@/postgres?host={home}"

        # When a broker connects, then it learns that, and the password is in no message
        with pytest.raises(MetadataUnavailable) as raised:
            await PostgresMetadata.open(dsn)
    error: BaseException | None = raised.value
    while error is not None:
        assert "hunter2" not in f"{error} {error!r}"
        error = error.__cause__
