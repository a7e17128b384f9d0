"""The processes that are killed: a broker that comes back at its address, and its Postgres."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

import psutil

from storage.postgres.postgres_process import read_pid_file
from tests.support.broker import BrokerFailed, BrokerProcess, start_broker
from tests.support.ports import free_port

PATIENCE_S: Final = 120.0
GLANCE_S: Final = 0.02  # what is asked may take much of a processor
SHOWN_CHARACTERS: Final = 4_000

T = TypeVar("T")


def until(probe: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """Ask until there is an answer, which None and False are not.

    Raises:
        AssertionError: there is none in that time.
    """
    deadline = time.monotonic() + patience_s
    while (found := probe()) is None or found is False:
        assert time.monotonic() < deadline, f"waited {patience_s} s for {what}"
        time.sleep(GLANCE_S)
    return found


class KillableBroker:
    """A broker on one directory and one address, started as often as a test likes."""

    def __init__(
        self, data: Path, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.data = data
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self._arguments = arguments
        self._environment = {**os.environ, **(environment or {})}
        self._process: BrokerProcess | None = None

    @property
    def process(self) -> BrokerProcess:
        assert self._process is not None, "not started"
        return self._process

    @property
    def embedded_postgres(self) -> Path:
        return self.data / "postgres"

    def start(self) -> None:
        """Return when it serves."""
        self._process = self._start()

    def _start(self, *, own_imports: bool = False) -> BrokerProcess:
        return start_broker(
            self.data,
            *self._arguments,
            listen=self.bootstrap,
            environment=self._environment,
            own_imports=own_imports,
        )

    def kill_while_starting(self, after_s: float) -> None:
        """Start it and end it at once `after_s` later, ready or not."""
        with ThreadPoolExecutor(1) as thread:
            starting = thread.submit(self._start, own_imports=True)
            child = until(self._child, "the broker's process")
            time.sleep(after_s)
            child.kill()
            try:
                starting.result().kill()
            except BrokerFailed:
                return

    def _child(self) -> psutil.Process | None:
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):  # another one, that ends at this moment
                if str(self.data) in child.cmdline():
                    return child
        return None

    def end(self) -> None:
        """Leave nothing running, whatever state the test has left it in."""
        if self._process is not None:
            self._process.kill()
        kill_postgres(self.embedded_postgres)

    def log(self) -> str:
        return (self.data / "broker.log").read_text()


@contextmanager
def killable_broker(
    data: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[KillableBroker]:
    """Start a broker; end it, and its embedded Postgres, after the block."""
    broker = KillableBroker(data, *arguments, environment=environment)
    try:
        broker.start()
        yield broker
    except AssertionError as error:
        error.add_note(f"the broker's log ends:\n{broker.log()[-SHOWN_CHARACTERS:]}")
        raise
    finally:
        broker.end()


def postgres_pid(directory: Path) -> int | None:
    """Return the pid of the server on `directory` that says it is ready, if only as a standby."""
    lines = read_pid_file(directory)
    is_ready = len(lines) >= 8 and lines[7].strip() in ("ready", "standby")
    return int(lines[0]) if is_ready else None


def new_postgres_pid(directory: Path, old: int) -> int:
    """Wait until another server than `old` is ready."""

    def probe() -> int | None:
        pid = postgres_pid(directory)
        return pid if pid != old else None

    return until(probe, f"another Postgres than {old}")


def kill_postgres(directory: Path) -> None:
    """End a server and its children, if one runs."""
    lines = read_pid_file(directory)
    if not lines:
        return
    try:
        server = psutil.Process(int(lines[0]))
        if server.cwd() != str(directory.resolve()):
            return  # the pid has become somebody else's
        family = [server, *server.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for one in family:
        kill_if_there(one)
    until(lambda: None if any(map(_runs, family)) else True, "the end of Postgres")


def kill_if_there(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):  # it ended by itself
        process.kill()


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
