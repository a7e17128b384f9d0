"""A broker process of this project on a free port."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tests.support.forks import REPOSITORY, Forked, forks
from tests.support.postgres_template import put_postgres
from tests.support.secrets import check_log

READY: Final = re.compile(r"ready bootstrap=(\S+) http=(\S+)")
BUG: Final = re.compile(r'"bug (in|while) |Traceback')
START_S: Final = 60
PROGRAM: Final = ("broker.main",)
IMPORTED: Final = ("broker.serve_command", "broker.app")
"""What that program imports when it has hidden its command line."""


class BrokerFailed(AssertionError):
    """The broker did not start; the message has its log."""


@dataclass(slots=True)
class BrokerProcess:
    """A started broker.

    Attributes:
        bootstrap: HOST:PORT for clients.
        http: HOST:PORT for health and metrics.
        log: its standard error, as a file.
    """

    process: "subprocess.Popen[str] | Forked"
    bootstrap: str
    http: str
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def stop(self, timeout_s: float = 60) -> int:
        """Ask it to stop; return its exit code. Its log must tell of no bug, and have no secret.

        That it is quick is seen by the code: after SHUTDOWN_S it ends itself with another than 0.
        """
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout_s)
        finally:
            self.kill()
        check_log(self.log)
        check_bugs(self.log)
        return code

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def check_bugs(log: Path) -> None:
    """Fail if a log tells of a bug, which clients may have been told as one error of many."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if BUG.search(line)]
    assert not lines, f"{len(lines)} bugs in {log}, first {lines[0][:2000]}"


def start_broker(
    data: Path,
    *arguments: str,
    listen: str = "127.0.0.1:0",
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = PROGRAM,
    python: str = sys.executable,
    own_session: bool = False,
    has_postgres: bool = True,
    own_imports: bool = False,
) -> BrokerProcess:
    """Start a broker on `data` and wait until it serves; `program` is a module, and its words.

    It is a fork of a process that has imported it (forks.py), unless it shall have `own_imports`,
    or another program or Python was named: of a second of processor time a tenth is left.

    If it `has_postgres`, it finds an embedded one made already (postgres_template.py).

    Without a STREAMHOUSE_UPKEEP__ variable in its environment it has no upkeep process: most tests
    are about something else. With one that says more than that it has one, upkeep does not wait
    for a machine that is less busy, and gives way to nothing.

    Raises:
        BrokerFailed: it ended, or was not ready in time.
    """
    data.mkdir(parents=True, exist_ok=True)
    if has_postgres and "--postgres" not in arguments:
        put_postgres(data)
    log = data / "broker.log"
    places = ("--listen", listen, "--http", "127.0.0.1:0", "--data", str(data))
    command = ("serve", *places, *arguments)
    settings = _settings(os.environ if environment is None else environment)
    process: subprocess.Popen[str] | Forked
    with log.open("a") as errors:
        if own_imports or program != PROGRAM or python != sys.executable:
            process = _started((python, "-m", *program, *command), settings, errors, own_session)
        else:
            process = _forked(command, settings, errors, own_session)
    assert process.stdout is not None
    line = process.stdout.readline()
    ready = READY.match(line)
    if ready is None:
        process.kill()
        process.wait()
        process.stdout.close()
        raise BrokerFailed(f"no ready line but {line!r}\n{log.read_text()[-4000:]}")
    return BrokerProcess(process=process, bootstrap=ready[1], http=ready[2], log=log)


def _started(
    command: Sequence[str], settings: Mapping[str, str], errors: IO[str], own_session: bool
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=settings,
        cwd=REPOSITORY,
        start_new_session=own_session,
    )


def _forked(
    command: Sequence[str], settings: Mapping[str, str], errors: IO[str], own_session: bool
) -> Forked:
    reading, writing = os.pipe()
    with Path(os.devnull).open() as nothing, os.fdopen(writing, "w") as output:
        return forks(*IMPORTED).start(
            "broker.main:main",
            command,
            environment=settings,
            files=[nothing.fileno(), output.fileno(), errors.fileno()],
            own_session=own_session,
            stdout=os.fdopen(reading),
        )


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a broker may see: it refuses STREAMHOUSE_ variables that it does not know."""
    seen = {
        name: value
        for name, value in environment.items()
        if not name.startswith("STREAMHOUSE_TEST_")
    }
    upkeep = {name for name in seen if name.startswith("STREAMHOUSE_UPKEEP__")}
    if not upkeep:
        seen["STREAMHOUSE_UPKEEP__ENABLED"] = "false"
    elif upkeep != {"STREAMHOUSE_UPKEEP__ENABLED"}:
        seen.setdefault("STREAMHOUSE_UPKEEP__PATIENCE_MS", "0")
    return seen


@contextmanager
def running_broker(
    data: Path, *arguments: str, listen: str = "127.0.0.1:0"
) -> Iterator[BrokerProcess]:
    """Run a broker for the length of a block, then stop it cleanly."""
    broker = start_broker(data, *arguments, listen=listen)
    try:
        yield broker
    finally:
        code = broker.stop()
    assert code == 0, f"the broker ended with {code}"
