"""A private Postgres for a broker without one (D2): made, started, watched and stopped by it.

It lives in one directory, listens on a socket there and on nothing else, and outlives a kill -9 of
the broker: the next one finds it running and goes on with it. A lock file keeps two brokers from
looking after the same directory.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from storage.postgres.postgres_binaries import (
    ENVIRONMENT,
    MAJOR_VERSION,
    EmbeddedPostgresError,
    SystemUser,
    binaries,
    initdb_command,
    let_pass,
    make_socket_directory,
    server_command,
    server_user,
    unix_socket_dsn,
)
from storage.postgres.postgres_process import (
    ServerProcess,
    find_running,
    log_tail,
    read_pid_file,
    says,
    spawn,
    wait_until_ready,
)

READY_TIMEOUT_S = 60.0  # unless it says that it is starting
TELL_S = 10.0  # of one that is
START_RETRY_S = 5.0  # a killed server's children hold its shared memory for a moment
RETRY_DELAY_S = 0.05
MAX_RETRY_DELAY_S = 5.0
FAST_STOP_S = 1.5
QUIT_S = 1.0

log = structlog.get_logger()


class EmbeddedPostgres:
    """A server on `directory`; `async with` starts and stops it.

    The task that starts it owns it, as that of an `asyncio.TaskGroup`: a bug in what restarts the
    server cancels that task, and is raised by `stop`.

    Args:
        directory: of the database; made if it is not there. Its parent holds the lock file.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._user: SystemUser | None = None
        self._server: ServerProcess | None = None
        self._running = AsyncExitStack()
        self._lock: int | None = None
        self._sockets = self._directory

    @property
    def dsn(self) -> str:
        """Address of the database; it holds no secret, and stays the same over restarts."""
        return unix_socket_dsn(self._sockets)

    @property
    def pid(self) -> int:
        """Of the server that runs now."""
        assert self._server is not None, "not running"
        return self._server.pid

    async def start(self) -> None:
        """Return when the server accepts connections; from then on it is restarted when it dies.

        Raises:
            EmbeddedPostgresError: it cannot be started; the message tells why.
        """
        assert self._server is None, "started twice"
        self._directory.parent.mkdir(parents=True, exist_ok=True)
        async with AsyncExitStack() as running:
            self._take_lock()
            running.callback(self._release_lock)
            await asyncio.to_thread(self._prepare)
            self._sockets = make_socket_directory(self._directory, self._user)
            self._server = await self._adopt_or_start()
            running.push_async_callback(self._stop_server)
            tasks = await running.enter_async_context(asyncio.TaskGroup())
            watch = tasks.create_task(self._keep_running(), name="embedded postgres")
            running.callback(watch.cancel)
            self._running = running.pop_all()

    async def stop(self) -> None:
        """Stop the server within two seconds or so; no commit is ever lost.

        Raises:
            ExceptionGroup: a bug kept it from being restarted; it is stopped all the same.
        """
        await self._running.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def _take_lock(self) -> None:
        path = self._directory.with_name(self._directory.name + ".lock")
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._release_lock()
            raise EmbeddedPostgresError(
                f"another process looks after {self._directory}; stop it, or use another --data"
            ) from error

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _prepare(self) -> None:
        self._user = server_user(self._directory)
        if self._user is not None:
            let_pass(self._user, self._directory)
            let_pass(self._user, binaries() / "postgres")
        self._make_directory()

    def _make_directory(self) -> None:
        """Make the database beside its place and move it there: there is never half of one."""
        version = self._directory / "PG_VERSION"
        if version.exists():
            if (major := version.read_text().strip()) != MAJOR_VERSION:
                raise EmbeddedPostgresError(
                    f"{self._directory} was made by Postgres {major}; this is {MAJOR_VERSION}. "
                    f"Move the data with pg_dumpall, or run the StreamHouse that made it."
                )
            return
        unfinished = self._directory.with_name(self._directory.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        if self._user is not None:
            os.chown(unfinished, self._user.uid, self._user.gid)
        done = subprocess.run(  # noqa: S603 (our own arguments)
            initdb_command(unfinished),
            check=False,
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            cwd="/",
            user=self._user.uid if self._user else None,
            group=self._user.gid if self._user else None,
            extra_groups=[] if self._user else None,
        )
        if done.returncode != 0:
            raise EmbeddedPostgresError(f"initdb failed: {done.stderr.strip()}")
        unfinished.rename(self._directory)
        parent = os.open(self._directory.parent, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    async def _adopt_or_start(self) -> ServerProcess:
        running = find_running(self._directory)
        if running is not None and await self._ready(running, stale=[]):
            log.info("embedded postgres found running", pid=running.pid)
            return running
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_RETRY_S
        while True:
            server = await self._start()
            if server is not None:
                return server
            if loop.time() > deadline:
                raise EmbeddedPostgresError(
                    f"Postgres does not start on {self._directory}: {log_tail(self._directory)}"
                )
            await asyncio.sleep(RETRY_DELAY_S)

    async def _start(self) -> ServerProcess | None:
        command = server_command(self._directory, self._sockets)
        stale = read_pid_file(self._directory)
        try:
            server = spawn(command, self._directory, self._user)
        except OSError as error:
            raise EmbeddedPostgresError(f"{command[0]} cannot be started: {error}") from error
        try:
            ready = await self._ready(server, stale=stale)
        except BaseException:
            await _stop(server)
            raise
        if ready:
            log.info("embedded postgres started", pid=server.pid)
        return server if ready else None

    async def _ready(self, server: ServerProcess, *, stale: list[str]) -> bool:
        """Return whether it is ready; if not, it is gone.

        What was written since the last checkpoint is replayed first, however long that takes: a
        server that is ended meanwhile, and its successors, would begin again from there for ever.

        Raises:
            EmbeddedPostgresError: it is neither, nor says that it is starting.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while True:
            try:
                return await wait_until_ready(self._directory, server, TELL_S, stale=stale)
            except TimeoutError as error:
                if says(self._directory, server, "starting", stale=stale):
                    log.warning("embedded postgres recovers", pid=server.pid)
                elif loop.time() - began_s > READY_TIMEOUT_S:
                    raise EmbeddedPostgresError(
                        f"Postgres (pid {server.pid}) is not ready after {READY_TIMEOUT_S:g} s: "
                        f"{log_tail(self._directory)}"
                    ) from error

    async def _stop_server(self) -> None:
        if self._server is not None:
            await _stop(self._server)
            self._server = None

    async def _keep_running(self) -> None:
        while self._server is not None:
            await self._server.gone()
            log.warning("embedded postgres died", pid=self._server.pid)
            self._server = None
            self._server = await self._restart()

    async def _restart(self) -> ServerProcess:
        delay_s = RETRY_DELAY_S
        while True:
            try:
                server = await self._start()
                if server is not None:
                    return server
                log.warning("embedded postgres ended at once", said=log_tail(self._directory))
            except (EmbeddedPostgresError, OSError) as error:  # as when nothing can be opened
                log.error("embedded postgres not started", reason=str(error))  # noqa: TRY400
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, MAX_RETRY_DELAY_S)


async def _stop(server: ServerProcess) -> None:
    """Ask, insist, kill: the write-ahead log makes each of them safe."""
    try:
        for number, patience_s in ((signal.SIGINT, FAST_STOP_S), (signal.SIGQUIT, QUIT_S)):
            server.send(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await server.gone()
                    return
    except asyncio.CancelledError:  # this process ends now, and is not to leave it behind
        server.send(signal.SIGKILL)
        raise
    server.send(signal.SIGKILL)
    await server.gone()
