"""Who is cancelled while Postgres is silent is cancelled: nothing waits for its answer."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest

from sql import Migration, migrations
from storage.config import PostgresConfig
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.tasks import TaskKind
from storage.postgres import postgres_pool
from storage.postgres.migrate import migrate
from storage.postgres.postgres_connection import Connection, configure
from storage.postgres.postgres_pool import PostgresPool
from storage.upkeep import task_lease
from storage.upkeep.task_lease import claimed
from tests.contracts.metadata_stores import create_partitions
from tests.storage.later_versions import NEW_ONLY
from tests.support.lossy_proxy import LossyProxy
from tests.support.patience import PATIENCE_S, PATIENT
from tests.support.postgres import create_database, postgres_server, short_directory, until


class Behind(NamedTuple):
    """A database behind a proxy, which can become silent."""

    proxy: LossyProxy
    dsn: str


@pytest.fixture
async def behind() -> AsyncIterator[Behind]:
    dsn, server = await create_database(), postgres_server()
    async with AsyncExitStack() as stack:
        home = stack.enter_context(short_directory())
        proxy = await stack.enter_async_context(LossyProxy.between(home, server.directory))
        yield Behind(proxy, dsn.replace(f"host={server.directory}", f"host={home}"))


async def cancelled_in_silence(proxy: LossyProxy, work: Coroutine[Any, Any, object]) -> bool:
    """Cancel `work` when an answer to it is lost; return whether that is what ends it."""
    working = asyncio.create_task(work)

    async def has_lost() -> bool:
        return proxy.lost > 0

    await until(has_lost)
    working.cancel()
    await asyncio.wait([working], timeout=PATIENCE_S / 2)
    return working.cancelled()


async def test_a_question_that_is_cancelled_waits_for_no_answer(behind: Behind) -> None:
    # Given a pool whose only connection becomes silent
    pool = await PostgresPool.open(behind.dsn, PATIENT)
    behind.proxy.lose_answers()

    # When a question on it is cancelled, then it is at once
    assert await cancelled_in_silence(behind.proxy, pool.fetch("session_pid"))

    # And the next one has another connection
    behind.proxy.cut()
    assert await pool.fetch("session_pid")
    await pool.close()


async def test_a_connection_that_is_cancelled_while_it_is_set_up_waits_for_no_answer(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a server that lets a broker in, and is silent from then on
    async def configure_in_silence(connection: Connection, config: PostgresConfig) -> None:
        behind.proxy.lose_answers()
        await configure(connection, config)

    monkeypatch.setattr(postgres_pool, "configure", configure_in_silence)

    # When whoever connects is cancelled, then it is at once
    assert await cancelled_in_silence(behind.proxy, PostgresPool.open(behind.dsn, PATIENT))


async def test_a_migration_that_is_cancelled_waits_for_no_answer(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a migration whose server is silent in the middle of it
    def know_in_silence() -> list[Migration]:
        behind.proxy.lose_answers()
        return [*known, NEW_ONLY]

    known = migrations()
    monkeypatch.setattr("storage.postgres.migrate.migrations", know_in_silence)

    # When whoever starts is cancelled, then it is at once
    assert await cancelled_in_silence(behind.proxy, migrate(behind.dsn, PATIENT))


async def test_work_comes_to_its_end_while_its_lease_cannot_be_renewed(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a task that is worked on, whose claim a silent server does not make longer
    store = await PostgresMetadata.open(behind.dsn, PATIENT)
    (partition,) = await create_partitions(store, 1)
    await store.add_tasks(TaskKind.BUILD, [partition])
    monkeypatch.setattr(task_lease, "LEASE_MS", 3_000)

    async def work() -> None:
        async with claimed(store, TaskKind.BUILD):
            behind.proxy.lose_answers()
            await asyncio.Event().wait()

    # When the work is over, then nothing waits for that answer
    assert await cancelled_in_silence(behind.proxy, work())
    behind.proxy.cut()
    await store.close()
