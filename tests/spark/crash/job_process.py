"""A job as its users start it: a Python process, which has a JVM, which has Python workers."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

import psutil

from tests.crash.processes import kill_if_there, until

ROOT: Final = Path(__file__).parents[3]
SHOWN_CHARACTERS: Final = 6_000
END_S: Final = 300.0
JVM: Final = "java"


class Victim(StrEnum):
    """What of a driver is killed."""

    ALL = "driver"  # as a machine's crash does
    JVM = "driver's JVM"  # Python is left with a gateway that does not answer


class JobProcess:
    """A program that may end in the middle of anything, and is started again as it was.

    Args:
        module: run by `python -m`.
        arguments: the same at each start.
        log: a file; the output of all starts, one after the other.
    """

    def __init__(
        self, module: str, *arguments: str, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.starts = 0
        self._command = [sys.executable, "-m", module, *arguments]
        self._log = log
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return that of the driver as it was last started."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Return how it ended; None while it runs."""
        assert self._process is not None, "not started"
        return self._process.poll()

    def start(self) -> None:
        """Start it; it is not waited for."""
        assert self._process is None or self.code is not None, "still running"
        self.starts += 1
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env=dict(self._environment),
                start_new_session=True,
            )

    def kill(self, victim: Victim = Victim.ALL) -> None:
        """End it, or its JVM, at once; return when nothing of it runs any more."""
        assert self._process is not None, "not started"
        family = self._family()
        for one in family:
            if victim is Victim.ALL or _is_jvm(one):
                kill_if_there(one)
        self.wait()
        for one in family:  # what a JVM leaves behind finds out by itself, but not at once
            kill_if_there(one)
        until(lambda: None if any(map(_runs, family)) else True, "the end of the job's processes")

    def wait(self, timeout_s: float = END_S) -> int:
        """Return its exit code.

        Raises:
            AssertionError: it still runs after `timeout_s`; the message has the end of its log.
        """
        assert self._process is not None, "not started"
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"runs after {timeout_s:.0f} s\n{self.log()}") from None

    def log(self) -> str:
        """Return the end of its output."""
        return self._log.read_text(errors="replace")[-SHOWN_CHARACTERS:]

    def _family(self) -> list[psutil.Process]:
        """Return it and all that it has started; Python workers have process groups of their own.

        It is stopped first, so that it starts nothing meanwhile.
        """
        try:
            driver = psutil.Process(self.pid)
            driver.suspend()
            below = driver.children(recursive=True)
            driver.resume()
        except psutil.NoSuchProcess:
            return []
        return [driver, *below]


@contextmanager
def running_job(job: JobProcess) -> Iterator[JobProcess]:
    """Start a job; whatever happens, nothing of it runs after the block."""
    job.start()
    try:
        yield job
    except AssertionError as error:
        error.add_note(f"the job's log ends:\n{job.log()}")
        raise
    finally:
        if job.code is None:
            job.kill()


def _is_jvm(process: psutil.Process) -> bool:
    try:
        return process.name() == JVM
    except psutil.NoSuchProcess:
        return False


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
