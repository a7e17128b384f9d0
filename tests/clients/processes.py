"""Stock programs as child processes: found or installed, run with a deadline, heard on failure."""

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients.cache import one_at_a_time

INSTALL_TIMEOUT_S = 600.0
SHOWN_CHARACTERS = 4_000


class ProgramFailed(AssertionError):
    """A program ended with an error or not in time; the message holds what it said."""


class ProgramMissing(AssertionError):
    """A program is not installed and cannot be; the message names the command that does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a program that ended well wrote."""

    stdout: str
    stderr: str


def run(
    command: Sequence[str],
    *,
    timeout_s: float,
    stdin: bytes | Path = b"",
    environment: Mapping[str, str] | None = None,
) -> Output:
    """Run a program to its end.

    Args:
        command: program and arguments; no shell is involved.
        timeout_s: after this many seconds it is killed.
        stdin: bytes for its standard input, or a file.
        environment: added to this process's own.

    Raises:
        ProgramFailed: it ended with another code than 0, or not in time.
    """
    text = stdin.read_bytes() if isinstance(stdin, Path) else stdin
    try:
        ended = subprocess.run(
            command,
            input=text,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired as expired:
        said = _report(expired.stdout or b"", expired.stderr or b"")
        raise ProgramFailed(f"not ended after {timeout_s} s: {command}\n{said}") from expired
    if ended.returncode != 0:
        said = _report(ended.stdout, ended.stderr)
        raise ProgramFailed(f"exit code {ended.returncode}: {command}\n{said}")
    return Output(stdout=ended.stdout.decode(), stderr=ended.stderr.decode(errors="replace"))


def _report(stdout: bytes, stderr: bytes) -> str:
    streams = (("stderr", stderr), ("stdout", stdout))
    return "\n".join(
        f"--- {name}\n{text.decode(errors='replace')[-SHOWN_CHARACTERS:]}" for name, text in streams
    )


@functools.cache
def program(name: str, *, debian_package: str) -> str:
    """Return the path of a program; Debian's package is installed if it is missing (as root).

    A test that needs it never skips: without the program nothing is known about that client.

    Raises:
        ProgramMissing: it is not there and this process may not, or could not, install it.
    """
    with one_at_a_time("apt-get"):  # what another process installs may be there in part
        return shutil.which(name) or _installed(name, debian_package)


def _installed(name: str, debian_package: str) -> str:
    fix = f"apt-get update && apt-get install -y {debian_package}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ProgramMissing(f"{name} is not installed. As root on Debian: {fix}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        for command in (
            ["apt-get", "-q", "update"],
            ["apt-get", "-q", "install", "-y", debian_package],
        ):
            run(command, timeout_s=INSTALL_TIMEOUT_S, environment=quiet)
    except ProgramFailed as failed:
        raise ProgramMissing(f"{name} could not be installed by: {fix}") from failed
    if path := shutil.which(name):
        return path
    raise ProgramMissing(f"{name} is not on PATH, even after: {fix}")
