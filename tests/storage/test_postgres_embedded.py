"""The embedded Postgres is made, started, watched, found again and stopped."""

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from storage.postgres.postgres_binaries import EmbeddedPostgresError, unix_socket_dsn
from storage.postgres.postgres_connection import Connection
from storage.postgres.postgres_embedded import EmbeddedPostgres
from storage.postgres.postgres_process import ServerProcess, read_pid_file
from tests.support.postgres import short_directory, until

PATIENCE_S = 120.0
START_AND_WAIT = """
import asyncio, sys
from pathlib import Path
from storage.postgres.postgres_embedded import EmbeddedPostgres

async def main():
    server = EmbeddedPostgres(Path(sys.argv[1]))
    await server.start()
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where a database may be made."""
    with short_directory() as home:
        yield home / "postgres"


async def ask(dsn: str, question: str) -> str | None:
    """Ask a server that may be away."""
    try:
        connection: Connection = await asyncpg.connect(dsn)
    except (OSError, asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError):
        return None
    try:
        return str(await connection.fetchval(question))
    finally:
        await connection.close()


async def answers(directory: Path) -> int:
    """Wait until the server on `directory` answers; return its pid."""

    async def probe() -> str | None:
        return await ask(unix_socket_dsn(directory), "SELECT 1")

    assert await until(probe, timeout_s=PATIENCE_S) == "1"
    return int(read_pid_file(directory)[0])


@pytest.fixture
def other_broker(directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Another process that looks after the directory, and may be killed."""
    broker = subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, str(directory)], stdout=subprocess.DEVNULL
    )
    yield broker
    broker.kill()
    broker.wait()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Let this process open nothing, as if its connections had taken all that it may have."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def line_of(lines: Sequence[EventDict], event: str) -> EventDict | None:
    return next((line for line in lines if line["event"] == event), None)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def is_running(pid: int) -> bool:
    return not ServerProcess(pid=pid).is_gone()


async def test_a_server_is_made_and_stopped(directory: Path) -> None:
    # When a server is started where there is none
    async with EmbeddedPostgres(directory) as server:
        # Then it answers, durably, on nothing but its socket
        assert await ask(server.dsn, "SHOW fsync") == "on"
        assert await ask(server.dsn, "SHOW synchronous_commit") == "on"
        assert await ask(server.dsn, "SHOW full_page_writes") == "on"
        assert await ask(server.dsn, "SHOW listen_addresses") == ""
        assert await ask(server.dsn, "SHOW data_directory") == str(directory)
        assert mode(directory) == 0o700
        pid = server.pid

    # And when it was stopped, it is gone, and what it wrote is there the next time
    assert not is_running(pid)
    assert await ask(server.dsn, "SELECT 1") is None


async def test_what_was_written_is_there_after_a_restart(directory: Path) -> None:
    # Given a server that was stopped
    server = EmbeddedPostgres(directory)
    await server.start()
    first = server.dsn
    assert await ask(first, "CREATE TABLE t AS SELECT 7 AS n") == "None"
    await server.stop()

    # When it is started again, by another object
    async with EmbeddedPostgres(directory) as again:
        # Then it has the same address and data
        assert again.dsn == first
        assert await ask(again.dsn, "SELECT n FROM t") == "7"


async def test_a_killed_server_comes_back(directory: Path) -> None:
    # Given a running server
    async with EmbeddedPostgres(directory):
        running = await answers(directory)
        for _ in range(2):
            # When it is killed
            os.kill(running, signal.SIGKILL)

            # Then it comes back by itself at the same address, every time
            killed, running = running, await answers(directory)
            assert running != killed


async def test_a_server_killed_while_nothing_can_be_opened_comes_back(directory: Path) -> None:
    # Given a running server
    async with EmbeddedPostgres(directory):
        running = await answers(directory)

        # When it is killed while its broker can open nothing
        with no_descriptor_left(), capture_logs() as lines:
            os.kill(running, signal.SIGKILL)
            told = partial(line_of, lines, "embedded postgres not started")
            tried = await until(told, timeout_s=PATIENCE_S)

        # Then that is told, and the server comes back once something can be opened
        assert "Too many open files" in tried["reason"]
        assert await answers(directory) != running


async def test_a_server_is_stopped_while_nothing_can_be_opened(directory: Path) -> None:
    # Given a running server
    server = EmbeddedPostgres(directory)
    await server.start()
    running = await answers(directory)

    # When it is stopped while its broker can open nothing
    with no_descriptor_left():
        await server.stop()

    # Then it is gone, and another may look after the directory
    assert not is_running(running)
    async with EmbeddedPostgres(directory) as again:
        assert await ask(again.dsn, "SELECT 1") == "1"


async def test_a_bug_in_the_watch_ends_the_broker(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a server whose watch fails in a way that nobody has thought of
    async def fail(_: ServerProcess) -> None:
        monkeypatch.undo()
        raise RuntimeError("bug")

    monkeypatch.setattr(ServerProcess, "gone", fail)
    server = EmbeddedPostgres(directory)

    async def work() -> None:
        async with asyncio.timeout(PATIENCE_S), server:
            await asyncio.Event().wait()

    # When a broker works with it, then it is told
    with pytest.raises(ExceptionGroup) as ended:
        await work()
    assert ended.group_contains(RuntimeError, match="bug")

    # And the server is stopped, and another may look after the directory
    assert await ask(server.dsn, "SELECT 1") is None
    async with EmbeddedPostgres(directory) as again:
        assert await ask(again.dsn, "SELECT 1") == "1"


async def test_a_server_that_outlived_its_broker_is_found(
    directory: Path, other_broker: "subprocess.Popen[bytes]"
) -> None:
    # Given a broker with a server
    orphan = await answers(directory)

    # When another looks after the same directory, then it is refused
    with pytest.raises(EmbeddedPostgresError, match="another process"):
        await EmbeddedPostgres(directory).start()

    # When the broker is killed
    other_broker.kill()
    other_broker.wait()
    assert is_running(orphan)

    # Then the next one goes on with its server, brings it back when it dies, and stops it
    async with EmbeddedPostgres(directory) as server:
        assert server.pid == orphan
        os.kill(orphan, signal.SIGKILL)
        last = await answers(directory)
        assert last != orphan
    assert not is_running(last)


async def test_an_orphan_is_stopped_by_its_new_broker(
    directory: Path, other_broker: "subprocess.Popen[bytes]"
) -> None:
    # Given a server that outlived its broker
    orphan = await answers(directory)
    other_broker.kill()
    other_broker.wait()

    # When the next broker starts and stops, then it is gone
    async with EmbeddedPostgres(directory) as server:
        assert server.pid == orphan
    assert not is_running(orphan)


async def test_a_pid_file_with_the_number_of_another_process_is_no_server(directory: Path) -> None:
    # Given a server that was killed, and whose number was given to another process
    server = EmbeddedPostgres(directory)
    await server.start()
    await server.stop()
    pid_file = directory / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{directory}\n1\n5432\n{directory}\n\n0 0\nready\n")

    # When the next broker starts
    async with EmbeddedPostgres(directory) as again:
        # Then it starts a server of its own
        assert again.pid != os.getpid()
        assert await ask(again.dsn, "SELECT 1") == "1"


async def test_an_unfinished_database_is_made_anew(directory: Path) -> None:
    # Given a broker that was killed while it made its database
    unfinished = directory.with_name("postgres.unfinished")
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")

    # When the next one starts, then there is a whole database and nothing else
    async with EmbeddedPostgres(directory) as server:
        assert await ask(server.dsn, "SELECT 1") == "1"
    assert not unfinished.exists()


def test_a_database_of_another_version_is_refused(directory: Path) -> None:
    # Given a directory of another major version
    directory.mkdir()
    (directory / "PG_VERSION").write_text("16\n")

    # When it is started, then the message tells what it is
    with pytest.raises(EmbeddedPostgresError, match="made by Postgres 16"):
        asyncio.run(EmbeddedPostgres(directory).start())


async def test_a_server_that_cannot_start_says_why(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a database with a broken configuration, left in good order
    monkeypatch.setattr("storage.postgres.postgres_embedded.FAST_STOP_S", PATIENCE_S)
    async with EmbeddedPostgres(directory):
        pass
    with (directory / "postgresql.conf").open("a") as file:
        file.write("\nno_such_setting = 1\n")
    monkeypatch.setattr("storage.postgres.postgres_embedded.START_RETRY_S", 0.0)

    # When it is started, then the error has the server's own words
    with pytest.raises(EmbeddedPostgresError, match="no_such_setting"):
        await EmbeddedPostgres(directory).start()
    assert read_pid_file(directory) == []


async def test_a_server_that_recovers_for_long_is_left_to_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a database whose recovery goes on until we let it
    async with EmbeddedPostgres(directory):
        pass
    gate = directory / "gate"
    gate.touch()
    (directory / "recovery.signal").touch()
    with (directory / "postgresql.conf").open("a") as file:
        file.write("\nrestore_command = 'while [ -e gate ]; do sleep 0.05; done; false'\n")
    monkeypatch.setattr("storage.postgres.postgres_embedded.TELL_S", 0.05)
    server = EmbeddedPostgres(directory)

    # When it takes longer than any other start may
    with capture_logs() as lines:
        starting = asyncio.create_task(server.start())
        told = partial(line_of, lines, "embedded postgres recovers")
        recovering = (await until(told, timeout_s=PATIENCE_S))["pid"]
        lines.clear()
        with monkeypatch.context() as limits:
            limits.setattr("storage.postgres.postgres_embedded.READY_TIMEOUT_S", 0.0)
            await until(told, timeout_s=PATIENCE_S)

    # Then that is told, and the same server is ready in the end
    gate.unlink()
    await starting
    assert server.pid == recovering
    assert await ask(server.dsn, "SELECT 1") == "1"
    await server.stop()


async def test_a_long_path_has_its_socket_elsewhere(directory: Path) -> None:
    # Given a folder whose path is too long for a socket
    deep = directory.parent / ("long" * 20) / ("path" * 20) / "postgres"

    # When a server is started in it, then it answers all the same, and only to its owner
    async with EmbeddedPostgres(deep) as server:
        assert server.dsn != unix_socket_dsn(deep)
        sockets = await ask(server.dsn, "SHOW unix_socket_directories")
        assert sockets is not None
        assert mode(Path(sockets)) == 0o700
    shutil.rmtree(sockets)
