"""`streamctl` in forks of a process that has imported it: imports are most of what a command costs.

That process (this module, as a program) has not begun anything else. A message to it has the
arguments and the environment of a command, and its standard input, output and errors; with them
comes a pipe that is told the command's process id, and its exit code once it has ended. Its end is
that of the socket on which they come.
"""

import atexit
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

MESSAGE_BYTES: Final = 1 << 20
REPOSITORY: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Forked:
    """A command that has ended."""

    exit_code: int
    out: bytes
    err: bytes


@dataclass(frozen=True, slots=True)
class Forks:
    """The process that has imported it, as those see it who want commands."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket

    def run(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes,
        environment: Mapping[str, str],
        timeout_s: float,
    ) -> Forked:
        """Run a command to its end; it is killed if that does not come in time."""
        request = {"arguments": list(arguments), "environment": dict(environment)}
        with ThreadPoolExecutor(3) as pool, ExitStack() as stack:
            pipes = [os.pipe() for _ in range(4)]
            (given, giving), *(out, err, told) = pipes
            theirs = [given, *(writing for _, writing in (out, err, told))]
            socket.send_fds(self.control, [json.dumps(request).encode()], theirs)
            for file in theirs:
                os.close(file)
            read_out, read_err, answers = (
                stack.enter_context(os.fdopen(reading, "rb")) for reading, _ in (out, err, told)
            )
            writing = pool.submit(_give, giving, stdin)
            reading = [pool.submit(file.read) for file in (read_out, read_err)]
            killing = Timer(timeout_s, os.kill, (int(answers.readline()), signal.SIGKILL))
            killing.start()
            exit_code = int(answers.readline())
            killing.cancel()
            writing.result()
            return Forked(exit_code, *(one.result() for one in reading))

    def close(self) -> None:
        self.control.close()
        self.process.wait()


def _give(file: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(file, "wb") as stdin:  # it need not read all of it
        stdin.write(data)


@functools.cache
def forks() -> Forks:
    """Return the process of this one; it ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            (sys.executable, "-m", __name__, str(theirs.fileno())),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=REPOSITORY,
            env={**os.environ, "TERM": "dumb"},
        )
    made = Forks(process, ours)
    atexit.register(made.close)
    return made


def _become_a_command(control: socket.socket) -> None:
    """Fork for each message; return in a process that is to run the command of one."""
    while True:
        message, files, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            *standard, answers = files
            command = os.fork()
            if command == 0:
                os.close(answers)
                _take(json.loads(message), standard)
                return
            for file in standard:
                os.close(file)
            os.write(answers, b"%d\n" % command)
            _, status = os.waitpid(command, 0)
            os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
        for file in files:
            os.close(file)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue


def _take(request: Mapping[str, Mapping[str, str]], standard: Sequence[int]) -> None:
    for number, file in enumerate(standard):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    # what commands import when they need it
    import streamctl.offline_dump
    import streamctl.offline_fsck
    import streamctl.offline_reconcile
    import streamctl.offline_recover
    import streamctl.offline_snapshots
    import streamctl.wire_codec  # noqa: F401
    from streamctl import commands  # noqa: F401
    from streamctl.main import main

    gc.freeze()  # else the end of each fork goes through all that was imported
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _become_a_command(socket.socket(fileno=int(sys.argv[1])))
    main()
