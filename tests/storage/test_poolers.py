"""Postgres behind a pooler, or with few sessions to give: who starts there can go on there."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from storage.errors import MetadataUnavailable, PostgresRefused
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres.postgres_binaries import DATABASE_USER, ENVIRONMENT, server_user
from storage.postgres.postgres_connection import Connection
from tests.clients.processes import program
from tests.contracts.metadata_stores import a_batch, commit, create_partitions
from tests.crash.external_postgres import ExternalPostgres, external_postgres
from tests.storage.postgres_commits import connected
from tests.support.ports import free_port
from tests.support.postgres import create_empty_database, short_directory, until

START_S = 60.0

pytestmark = pytest.mark.usefixtures("patience")


@contextmanager
def pgbouncer(postgres: ExternalPostgres, home: Path, *, mode: str) -> Iterator[str]:
    """Run PgBouncer before a server; yield the DSN."""
    port, config = free_port(), home / "pgbouncer.ini"
    settings = (
        "[databases]",
        f"* = host=127.0.0.1 port={postgres.port} user={DATABASE_USER}",
        "[pgbouncer]",
        *("listen_addr = 127.0.0.1", f"listen_port = {port}", "unix_socket_dir ="),
        *("auth_type = any", f"pool_mode = {mode}"),
    )
    config.write_text("\n".join(settings))
    config.chmod(0o644)
    user = server_user(postgres.directory)  # it does not run as root, either
    process = subprocess.Popen(
        [program("pgbouncer", debian_package="pgbouncer"), "-q", str(config)],
        env=ENVIRONMENT,
        cwd="/",
        stderr=subprocess.DEVNULL,
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
    )
    try:
        yield postgres.dsn.replace(f":{postgres.port}/", f":{port}/")
    finally:
        process.kill()
        process.wait()


async def opened(dsn: str) -> PostgresMetadata:
    """Open a store as soon as the pooler listens."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            return await PostgresMetadata.open(dsn)
        except PostgresRefused:
            raise
        except MetadataUnavailable:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_that_shares_sessions_is_refused_and_told_how_to_mend(mode: str) -> None:
    # Given a pooler that gives each transaction whatever session is free
    with (
        short_directory() as home,
        external_postgres(home / "server") as postgres,
        pgbouncer(postgres, home, mode=mode) as dsn,
    ):
        home.chmod(0o755)

        # When a broker starts behind it, then it does not: its settings and its statements would
        # be those of whoever had the session before
        with pytest.raises(PostgresRefused, match="pool_mode=session"):
            await opened(dsn)


async def test_a_pooler_of_sessions_is_as_good_as_postgres() -> None:
    with (
        short_directory() as home,
        external_postgres(home / "server") as postgres,
        pgbouncer(postgres, home, mode="session") as dsn,
    ):
        home.chmod(0o755)
        store = await opened(dsn)
        (partition,) = await create_partitions(store, 1)
        await commit(store, [a_batch(partition, 0)])
        await store.close()


async def test_who_has_not_the_sessions_to_commit_does_not_join() -> None:
    # Given a role that may have one session less than a broker cannot do without
    dsn = await create_empty_database()
    owner: Connection = await asyncpg.connect(dsn)
    await owner.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 4")
    database = await owner.fetchval("SELECT current_database()")
    await owner.execute(f"GRANT CREATE ON DATABASE {database} TO few")
    async with connected(dsn.replace("//streamhouse@", "//few@")) as store:
        # When a broker joins, then it does not, and nobody takes it for a member
        with pytest.raises(MetadataUnavailable, match="too many connections"):
            await join(store)
        assert not await owner.fetchval("SELECT count(*) FROM streamhouse_internal.brokers")

        # But it does once there are enough, and the one that was refused has ended
        await owner.execute("ALTER ROLE few CONNECTION LIMIT 5")

        async def has_joined() -> bool:
            try:
                await join(store)
            except MetadataUnavailable as error:
                if "too many connections" not in str(error):
                    raise
                return False
            return True

        await until(has_joined)
    await owner.close()


async def join(store: PostgresMetadata) -> None:
    await store.register_broker(
        uuid4(), ["a:9092"], rack=None, preferred_node_id=0, alone=False, time_to_live_ms=1000
    )
