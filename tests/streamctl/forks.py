"""`streamctl` in forks of a process that has imported it: imports are most of what it costs."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

from tests.support.forks import forks

IMPORTED: Final = (
    "streamctl.commands",
    # what commands import when they need it
    "streamctl.offline_dump",
    "streamctl.offline_fsck",
    "streamctl.offline_reconcile",
    "streamctl.offline_recover",
    "streamctl.offline_snapshots",
    "streamctl.wire_codec",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a finished command left behind."""

    exit_code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def run(
    arguments: Sequence[str], *, stdin: bytes, environment: Mapping[str, str], timeout_s: float
) -> Ended:
    """Run a command to its end; it is killed if that does not come in time."""
    with ThreadPoolExecutor(3) as pool, ExitStack() as stack:
        (given, giving), *said = [os.pipe() for _ in range(3)]
        theirs = [given, *(writing for _, writing in said)]
        files = [stack.enter_context(os.fdopen(reading, "rb")) for reading, _ in said]
        command = forks(*IMPORTED).start(
            "streamctl.main:main", arguments, environment=environment, files=theirs
        )
        for file in theirs:
            os.close(file)
        writing = pool.submit(_give, giving, stdin)
        reading = [pool.submit(file.read) for file in files]
        try:
            exit_code = command.wait(timeout_s)
        except subprocess.TimeoutExpired:
            command.kill()
            exit_code = command.wait()
        writing.result()
        out, err = (one.result() for one in reading)
        return Ended(exit_code=exit_code, out=out, err=err.decode())


def _give(file: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(file, "wb") as stdin:  # it need not read all of it
        stdin.write(data)
