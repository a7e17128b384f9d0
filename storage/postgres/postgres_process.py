"""A Postgres server process, our child or one that an earlier broker left running."""

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from storage.postgres.postgres_binaries import ENVIRONMENT, SystemUser

LOG_FILE = "server.log"
PID_FILE = "postmaster.pid"
POLL_S = 0.005
WATCH_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A running server.

    Attributes:
        child: None if another process started it; then only the system reaps it.
    """

    pid: int
    child: subprocess.Popen[bytes] | None = None

    def is_gone(self) -> bool:
        """Tell whether it ended, reaped or not."""
        if self.child is not None:
            return self.child.poll() is not None
        try:
            return _ended(self.pid)
        except ProcessLookupError:
            return True
        except OSError:
            return False  # somebody else's, or no descriptor is left to see it with: it is there

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it ended already."""
        if self.child is not None:
            self.child.send_signal(number)
        elif not self.is_gone():
            with contextlib.suppress(ProcessLookupError):  # it ended this moment, or unseen
                os.kill(self.pid, number)

    async def gone(self) -> None:
        """Wait until it ended."""
        while not self.is_gone():
            if sys.platform == "linux":
                await _pidfd_readable(self.pid)
            else:
                await asyncio.sleep(WATCH_POLL_S)


def _ended(pid: int) -> bool:
    if sys.platform == "linux":  # a pidfd tells of one that ended, but that nobody reaped
        pidfd = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            return bool(poll.poll(0))
        finally:
            os.close(pidfd)
    else:
        os.kill(pid, 0)
        return False


async def _pidfd_readable(pid: int) -> None:
    """Wait until it may have ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # no descriptor is left
        await asyncio.sleep(WATCH_POLL_S)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def spawn(command: list[str], directory: Path, user: SystemUser | None) -> ServerProcess:
    """Start a server; it writes what it has to say into its directory."""
    with (directory / LOG_FILE).open("ab") as output:
        if user is not None:
            os.fchown(output.fileno(), user.uid, user.gid)
        child = subprocess.Popen(  # noqa: S603 (our own arguments)
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the broker, which stops it last
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
        )
    return ServerProcess(pid=child.pid, child=child)


def find_running(directory: Path) -> ServerProcess | None:
    """Return the server that runs on `directory`, if one does.

    Its pid file survives a crash, and the number in it may meanwhile be another process's: after
    the restart of a container the same small numbers are given out again. Such a file would keep a
    new server from starting, and is removed. Only who holds the directory's lock may call this.
    """
    lines = read_pid_file(directory)
    if not lines:
        return None
    server = ServerProcess(pid=abs(int(lines[0])))
    if server.is_gone():
        return None
    if sys.platform == "linux":
        try:
            works_in = Path(f"/proc/{server.pid}/cwd").readlink()
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            works_in = Path()  # ended this moment, or is somebody else's
        if works_in != directory.resolve():
            (directory / PID_FILE).unlink()
            return None
    return server


def read_pid_file(directory: Path) -> list[str]:
    """Return the lines of the server's pid file: pid first, status in the eighth; empty if none."""
    try:
        return (directory / PID_FILE).read_text().splitlines()
    except FileNotFoundError:
        return []


def says(directory: Path, server: ServerProcess, status: str, *, stale: list[str]) -> bool:
    """Tell whether that is what the server says of itself: starting, ready, or stopping.

    `stale` is what the pid file said before this server started: it may hold the same pid.
    """
    lines = read_pid_file(directory)
    is_its_own = bool(lines) and lines[0] == str(server.pid) and lines != stale
    return is_its_own and len(lines) >= 8 and lines[7].strip() == status


async def wait_until_ready(
    directory: Path, server: ServerProcess, timeout_s: float, *, stale: list[str]
) -> bool:
    """Wait until the server says that it accepts connections (True), or is gone (False).

    Raises:
        TimeoutError: it is neither after `timeout_s`.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            if says(directory, server, "ready", stale=stale):
                return True
            if server.is_gone():
                return False
            await asyncio.sleep(POLL_S)  # the file is all that it tells


def log_tail(directory: Path) -> str:
    """Return the last lines that the server wrote."""
    try:
        text = (directory / LOG_FILE).read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-5:])
