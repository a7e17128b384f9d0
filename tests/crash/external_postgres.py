"""A Postgres that is not the broker's own: killed in several ways, started again by the test."""

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from storage.postgres.postgres_binaries import (
    DATABASE,
    DATABASE_USER,
    ENVIRONMENT,
    initdb_command,
    let_pass,
    server_command,
    server_user,
)
from tests.crash.processes import PATIENCE_S, kill_if_there, postgres_pid, until
from tests.support.ports import free_port


class ExternalPostgres:
    """A server that the broker only knows the address of; nobody but the test starts it again."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "database"
        self.port = free_port()
        self._log = home / "server.log"
        self._server: subprocess.Popen[bytes] | None = None
        self.directory.mkdir(parents=True, mode=0o700)
        self._user = server_user(self.directory)
        if self._user is not None:
            os.chown(self.directory, self._user.uid, self._user.gid)
            let_pass(self._user, self.directory)
        self._spawn(initdb_command(self.directory)).wait(PATIENCE_S)

    @property
    def dsn(self) -> str:
        return f"postgresql://{DATABASE_USER}@127.0.0.1:{self.port}/{DATABASE}?sslmode=disable"

    def start(self) -> None:
        """Start it, with recovery if it crashed; return when it is ready."""
        address = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}"]
        command = [*server_command(self.directory, self.directory), *address]

        def probe() -> int | None:
            if self._server is None or self._server.poll() is not None:
                self._server = self._spawn(command)  # a dead server's children hold its memory
            pid = postgres_pid(self.directory)
            return pid if pid == self._server.pid else None

        until(probe, f"Postgres: {self._log}")

    def _spawn(self, command: list[str]) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,
                user=self._user.uid if self._user else None,
                group=self._user.gid if self._user else None,
                extra_groups=[] if self._user else None,
            )

    def kill_postmaster(self) -> None:
        """End the first process only; its children find out by themselves."""
        assert self._server is not None
        self._server.kill()
        self._server.wait()

    def kill_all(self) -> None:
        """End all its processes at once, as a machine's crash does."""
        assert self._server is not None
        family = psutil.Process(self._server.pid).children(recursive=True)
        os.killpg(self._server.pid, signal.SIGKILL)
        for one in family:  # each backend has a session of its own
            kill_if_there(one)
        self._server.wait()

    def kill_a_backend(self, dice: random.Random) -> None:
        """End the process of one client's session; the server then restarts all of them."""
        kill_if_there(dice.choice(until(self._sessions, "a session of the broker")))

    def _sessions(self) -> list[psutil.Process] | None:
        assert self._server is not None
        sessions = []
        for child in psutil.Process(self._server.pid).children():
            with suppress(psutil.NoSuchProcess):
                if DATABASE_USER in " ".join(child.cmdline()):  # its title names the user
                    sessions.append(child)
        return sessions or None

    def end(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self.kill_all()


@contextmanager
def external_postgres(home: Path) -> Iterator[ExternalPostgres]:
    """Run a server for the length of a block."""
    server = ExternalPostgres(home)
    try:
        server.start()
        yield server
    finally:
        server.end()
