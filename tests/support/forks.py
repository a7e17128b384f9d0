"""Programs in forks of a process that has imported them: imports are most of what a start costs.

That process (this module, as a program) has not begun anything else. A message to it names a
function, the arguments that the command line of the program has, and its environment; with it come
its standard input, output and errors, and a pipe that is told its process id when it has all of
that, and its exit code once it has ended. The end of the process is that of the socket on which
messages come.

What Python takes from its environment when it starts (PYTHONIOENCODING, PYTHONHASHSEED), limits of
resources and signals that are ignored are those of the first start: what is about one of these has
to start a program itself.
"""

import atexit
import gc
import json
import os
import pkgutil
import select
import shlex
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final

from setproctitle import setproctitle

MESSAGE_BYTES: Final = 1 << 20
REPOSITORY: Final = Path(__file__).parents[2]

_making = Lock()
_made: "dict[tuple[str, ...], Forks]" = {}


class Forked:
    """A program that was started; to be treated as a Popen is."""

    def __init__(self, told: int, stdout: IO[str] | None = None) -> None:
        self.stdout = stdout
        self.returncode: int | None = None
        self._told = told
        self._lock = Lock()
        weakref.finalize(self, os.close, told)
        number, _, begun = self._line().partition(b" ")
        assert begun, "it was not begun: see what that process has said"
        self.pid = int(number)

    def poll(self) -> int | None:
        return self._ended(timeout_s=0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout_s=timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, *, timeout_s: float | None) -> int | None:
        told = select.poll()
        told.register(self._told, select.POLLIN)
        if self.returncode is None and told.poll(None if timeout_s is None else timeout_s * 1000):
            with self._lock:  # others may wait, too
                if self.returncode is None:
                    self.returncode = int(self._line())
        return self.returncode

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n") and (more := os.read(self._told, 1)):
            line += more
        return line


@dataclass(frozen=True, slots=True)
class Forks:
    """The process that has imported them, as those see it who start programs."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket

    def start(
        self,
        function: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        files: Sequence[int],
        own_session: bool = False,
        stdout: IO[str] | None = None,
    ) -> Forked:
        """Start a program; its `files` are standard input, output and errors.

        Args:
            function: what it calls, as "module:name".
            stdout: where its output is read, for whoever gets the answer.
        """
        request = {
            "function": function,
            "arguments": list(arguments),
            "environment": dict(environment),
            "own_session": own_session,
        }
        told, telling = os.pipe()
        try:
            socket.send_fds(self.control, [json.dumps(request).encode()], [*files, telling])
        finally:
            os.close(telling)
        return Forked(told, stdout)

    def close(self) -> None:
        self.control.close()
        self.process.wait()


def forks(*modules: str) -> Forks:
    """Return the process of this one that has imported `modules`; it ends with it."""
    with _making:
        if modules not in _made:
            _made[modules] = _make(modules)
            atexit.register(_made[modules].close)
        return _made[modules]


def _make(modules: Sequence[str]) -> Forks:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            (sys.executable, "-m", __name__, str(theirs.fileno()), *modules),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=REPOSITORY,
            env={**os.environ, "TERM": "dumb"},
        )
    return Forks(process, ours)


def _become_a_program(control: socket.socket) -> Callable[[], object]:
    """Fork for each message; return what is to be called in a process that is to be one."""
    while True:
        message, files, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            *standard, telling = files
            program = os.fork()
            if program == 0:
                function = _take(json.loads(message), standard)
                os.write(telling, b"%d has begun\n" % os.getpid())
                os.close(telling)
                return function
            for file in standard:
                os.close(file)
            _, status = os.waitpid(program, 0)
            os.write(telling, b"%d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
        for file in files:
            os.close(file)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue


def _take(request: Mapping[str, Any], standard: Sequence[int]) -> Callable[[], object]:
    if request["own_session"]:
        os.setsid()
    for number, file in enumerate(standard):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]
    line = shlex.join([sys.executable, *sys.argv])  # as whoever asks for it expects to see
    setproctitle(os.fsencode(line).decode(errors="replace"))  # words need not be UTF-8
    signal.signal(signal.SIGINT, signal.default_int_handler)
    function: Callable[[], object] = pkgutil.resolve_name(request["function"])
    return function


if __name__ == "__main__":
    setproctitle(shlex.join(sys.argv))  # makes room for those of programs
    for module in sys.argv[2:]:
        import_module(module)
    gc.freeze()  # else the end of each fork goes through all that was imported
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _become_a_program(socket.socket(fileno=int(sys.argv[1])))()
