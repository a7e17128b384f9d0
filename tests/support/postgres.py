"""A real Postgres for tests: one server per test run, a fresh migrated database per test.

The server is the wheel's own, on a socket in a temporary folder. It ends with the test run,
whatever happens to that: a shell between the two stops it when its standard input is closed.
"""

import asyncio
import atexit
import functools
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import asyncpg

from storage.config import PostgresConfig
from storage.postgres.migrate import migrate
from storage.postgres.postgres_binaries import (
    ENVIRONMENT,
    initdb_command,
    let_pass,
    server_command,
    server_user,
    unix_socket_dsn,
)
from storage.postgres.postgres_connection import Connection
from storage.postgres.postgres_process import read_pid_file

START_TIMEOUT_S = 120.0
STOP_WITH_STDIN = '"$@" & server=$!; read -r _; kill -QUIT "$server"; wait "$server"'
TEMPLATE = "migrated"

T = TypeVar("T")

_numbers = itertools.count(1)
_stops = ExitStack()


class PostgresServer(NamedTuple):
    """A running server; `dsn` is that of its maintenance database."""

    directory: Path
    dsn: str

    def database(self, name: str) -> str:
        """Return the address of a database of this server."""
        return self.dsn.replace("@/postgres?", f"@/{name}?")


@functools.cache
def postgres_server() -> PostgresServer:
    """Start the server at the first call. Its data need no power cut to survive: fsync is off."""
    home = Path(tempfile.mkdtemp(prefix="streamhouse-test-", dir="/tmp"))
    directory = home / "postgres"
    user = server_user(directory)
    directory.mkdir(mode=0o700)
    if user is not None:
        os.chown(directory, user.uid, user.gid)
        let_pass(user, directory)
    who = {"user": user.uid, "group": user.gid, "extra_groups": []} if user is not None else {}
    subprocess.run(
        [*initdb_command(directory), "--no-sync"],
        check=True,
        capture_output=True,
        env=ENVIRONMENT,
        cwd="/",
        **who,  # type: ignore[call-overload]
    )
    settings = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=100"]
    command = [*server_command(directory, directory), *settings]
    with (home / "server.log").open("wb") as output:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", STOP_WITH_STDIN, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,
            **who,  # type: ignore[call-overload]
        )

    def stop() -> None:
        shell.communicate()  # closes its standard input
        shutil.rmtree(home, ignore_errors=True)

    atexit.register(_stops.close)
    _stops.callback(stop)
    deadline = time.monotonic() + START_TIMEOUT_S
    while read_pid_file(directory)[7:8] != ["ready   "]:
        assert shell.poll() is None, (home / "server.log").read_text()
        assert time.monotonic() < deadline, "Postgres is not ready"
        time.sleep(0.005)
    return PostgresServer(directory, unix_socket_dsn(directory))


def stop_postgres_server() -> None:
    """Stop it, if it runs, and delete its gigabyte: pytest-xdist ends a process after 10 s."""
    _stops.close()


@asynccontextmanager
async def maintenance(server: PostgresServer) -> AsyncIterator[Connection]:
    """Connect to the server's maintenance database."""
    connection: Connection = await asyncpg.connect(server.dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def create_database() -> str:
    """Make a database with the current schema and return its address; it goes with the server."""
    server = await asyncio.to_thread(postgres_server)
    async with maintenance(server) as connection:
        names = await connection.fetch("SELECT datname FROM pg_database")
        if TEMPLATE not in {row["datname"] for row in names}:
            await connection.execute(f"CREATE DATABASE {TEMPLATE}")
            await migrate(server.database(TEMPLATE), PostgresConfig())
        name = f"test_{next(_numbers)}"
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY")
    return server.database(name)


async def create_empty_database() -> str:
    """Make a database without any schema and return its address."""
    server = await asyncio.to_thread(postgres_server)
    async with maintenance(server) as connection:
        name = f"empty_{next(_numbers)}"
        await connection.execute(f"CREATE DATABASE {name}")
    return server.database(name)


@contextmanager
def short_directory() -> Iterator[Path]:
    """A folder for a server that a test starts; its path is short enough for a socket."""
    home = Path(tempfile.mkdtemp(prefix="streamhouse-test-", dir="/tmp"))
    try:
        yield home
    finally:
        shutil.rmtree(home)


async def until(probe: Callable[[], Awaitable[T | None]], *, timeout_s: float = 60.0) -> T:
    """Ask until there is an answer, which None and False are not; fail after `timeout_s`."""
    async with asyncio.timeout(timeout_s):
        while True:
            found = await probe()
            if found is not None and found is not False:
                return found
            await asyncio.sleep(0.005)


async def blocked_commit(dsn: str) -> int:
    """Wait until a commit waits for a lock; return the pid of its backend."""
    connection: Connection = await asyncpg.connect(dsn)

    async def probe() -> int | None:
        pid: int | None = await connection.fetchval(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database() AND query LIKE '%commit_object%'"
        )
        return pid

    try:
        return await until(probe)
    finally:
        await connection.close()
