"""Metadata, and the server that it is asked of: one that dies, is restarted, or is not there."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import pytest

from storage.config import PostgresConfig
from storage.errors import MetadataUnavailable, NothingWritten
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres.postgres_connection import Connection
from storage.postgres.postgres_embedded import EmbeddedPostgres
from tests.contracts.metadata_stores import (
    a_batch,
    commit,
    create_partitions,
    reserved,
    short,
    whole_log,
)
from tests.crash.external_postgres import external_postgres
from tests.storage.postgres_commits import connected, retried
from tests.support.lossy_proxy import LossyProxy
from tests.support.postgres import (
    blocked_commit,
    create_database,
    postgres_server,
    short_directory,
    until,
)


@pytest.mark.parametrize(
    "ask",
    [lambda store: store.topic_changes(0), lambda store: store.claim_store("a")],
    ids=["question", "durable_change"],
)
async def test_a_connection_that_breaks_is_told_as_that(
    ask: Callable[[PostgresMetadata], Coroutine[Any, Any, object]],
) -> None:
    # Given a broker that asks Postgres something, and waits for an answer that is lost
    dsn, server = await create_database(), postgres_server()
    with short_directory() as home:
        behind = dsn.replace(f"host={server.directory}", f"host={home}")
        async with LossyProxy.between(home, server.directory) as proxy, connected(behind) as store:
            await store.topic_changes(0)
            proxy.lose_answers()
            waiting = asyncio.create_task(ask(store))

            async def has_lost() -> bool:
                return proxy.lost > 0

            await until(has_lost)

            # When its connection breaks, then the reason is that
            proxy.cut()
            with pytest.raises(MetadataUnavailable, match="connection was closed"):
                await waiting


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


async def test_what_its_standby_may_not_have_is_not_answered() -> None:
    # Given a server that waits for a synchronous standby, which is not there
    with short_directory() as home:
        async with EmbeddedPostgres(home / "postgres") as server, connected(server.dsn) as store:
            (partition,) = await create_partitions(store, 1)
            (doomed,) = await create_partitions(store, 1)
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

            # Nor that of ids, of records that are deleted, of topics made, changed or deleted
            for change in (
                store.allocate_producer_ids(1),
                store.delete_records({partition: 3}),
                store.create_topic("t", partition_count=1, replication_factor=1, configs={}),
                store.add_partitions(partition.topic_id, 2),
                store.alter_topic_configs(partition.topic_id, {"a": "b"}, replace=False),
                store.delete_topic(doomed.topic_id),
            ):
                changing = asyncio.ensure_future(change)
                await until(cancelled)
                with pytest.raises(MetadataUnavailable, match="synchronous replication"):
                    await changing

            # And the repeated calls are answered when the standby is no longer asked for
            await operator.execute("ALTER SYSTEM RESET synchronous_standby_names")
            await operator.execute("SELECT pg_reload_conf()")
            again = await retried(store, path, [a_batch(partition, 0)])
            assert [short(outcome) for outcome in again] == [10]
            assert (await store.delete_records({partition: 3}))[partition].log_start_offset == 3
            await operator.close()


async def test_a_session_is_bounded_and_durable() -> None:
    # Given a database whose owner does not care for durability, and has no time
    dsn = await create_database()
    owner: Connection = await asyncpg.connect(dsn)
    name = await owner.fetchval("SELECT current_database()")
    await owner.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await owner.execute(f"ALTER DATABASE {name} SET transaction_timeout = '1s'")
    await owner.close()

    # When a broker connects, then its sessions are set up as they must be, also when used again
    async with connected(dsn, PostgresConfig()) as store:
        await store._pool.fetch_unhurried("session_pid", timeout_s=60)
        with pytest.raises(asyncpg.DataError):
            await store._pool.fetch_unhurried("topic_delete", "not an id", timeout_s=60)
        for _ in range(3):
            async with store._pool._connection() as connection:
                names = ("statement_timeout", "lock_timeout", "client_connection_check_interval")
                shown = [await connection.fetchval(f"SHOW {name}") for name in names]
                assert shown == ["5s", "2s", "500ms"]
                assert await connection.fetchval("SHOW transaction_timeout") == "0"
                assert await connection.fetchval("SHOW synchronous_commit") == "on"


async def test_a_standby_is_not_asked_what_it_may_not_know_yet() -> None:
    # Given brokers that are sent to what has become a standby
    with short_directory() as home, external_postgres(home / "server") as postgres:
        async with connected(postgres.dsn) as store:
            postgres.kill_all()
            (postgres.directory / "standby.signal").touch()
            postgres.start()

            # Then neither one that runs nor one that starts takes its answers
            with pytest.raises(MetadataUnavailable, match="target_session_attrs=read-write"):
                await asyncio.wait_for(retried_until_connected(store), 20)
            with pytest.raises(MetadataUnavailable, match="target_session_attrs=read-write"):
                await PostgresMetadata.open(postgres.dsn)


async def retried_until_connected(store: PostgresMetadata) -> None:
    """Ask until a new connection is made: the old ones learn that they are broken."""
    while True:
        try:
            await store.topic_changes(0)
        except MetadataUnavailable as error:
            if isinstance(error, NothingWritten):
                raise


async def test_a_server_that_lagged_and_took_over_gives_no_producer_id_again() -> None:
    # Given producer ids of which most are not known to the server that takes over
    with short_directory() as home, external_postgres(home / "server") as postgres:
        async with connected(postgres.dsn) as store:
            known = await store.allocate_producer_ids(1)
            assert await store.allocate_producer_ids(10_000) == known + 1
            server = (await store.topic_changes(0)).server
        postgres.kill_all()
        postgres.start()
        connection: Connection = await asyncpg.connect(postgres.dsn)
        set_back = "UPDATE streamhouse_internal.cluster SET next_producer_id = $1"
        await connection.execute(set_back, known + 1)
        await connection.close()

        # When it is asked, then it is another one, and its first id is higher than all of them
        async with connected(postgres.dsn) as store:
            assert (await store.topic_changes(0)).server != server
            first = await store.allocate_producer_ids(1)
            assert first > known + 10_000

            # And after that they follow each other
            assert await store.allocate_producer_ids(5) == first + 1
            assert await store.allocate_producer_ids(1) == first + 6


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
