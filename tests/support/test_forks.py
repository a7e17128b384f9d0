"""Programs in forks are as if they were started: what they are given, and how they end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.forks import Forked, forks

VARIABLE = "STREAMHOUSE_TEST_FORKS"


def tell() -> None:
    """Say what this program was given, and fail."""
    given = [sys.argv[1:], os.environ.get(VARIABLE), os.getsid(0) == os.getpid()]
    sys.stdout.write(json.dumps(given))
    sys.stderr.write(sys.stdin.read())
    sys.exit(3)


def go_on() -> None:
    """Wait for a signal; signal.pause would not notice one that comes just before it waits."""
    while True:
        time.sleep(0.1)


def start(function: str, *arguments: str) -> Forked:
    with Path(os.devnull).open("r+b") as nothing:
        files = [nothing.fileno()] * 3
        return forks(__name__).start(function, arguments, environment=os.environ, files=files)


@pytest.mark.parametrize("own_session", [False, True])
def test_a_program_has_what_it_is_given(tmp_path: Path, *, own_session: bool) -> None:
    # Given three files
    given, out, err = (tmp_path / name for name in ("given", "out", "err"))
    given.write_text("a question")

    # When a program is started with them, words and a variable
    with given.open() as stdin, out.open("w") as stdout, err.open("w") as stderr:
        program = forks(__name__).start(
            f"{__name__}:tell",
            ["two words", os.fsdecode(b"\xff")],
            environment={**os.environ, VARIABLE: "é"},
            files=[stdin.fileno(), stdout.fileno(), stderr.fileno()],
            own_session=own_session,
        )

    # Then it has them, and its exit code is known
    assert program.wait() == program.poll() == program.returncode == 3
    assert json.loads(out.read_text()) == [["two words", "\udcff"], "é", own_session]
    assert err.read_text() == "a question"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_ends_when_it_is_told_to(number: signal.Signals) -> None:
    # Given a program that goes on, which `ps` shows as it was started
    program = start(f"{__name__}:go_on", "waits", "for ever")
    assert program.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    assert "waits 'for ever'" in " ".join(psutil.Process(program.pid).cmdline())

    # When it is told to end, then it is known how it did, however often that is asked
    program.send_signal(number)
    assert program.wait() == program.wait(0) == -number
    program.kill()
    assert not psutil.pid_exists(program.pid)


def test_ctrl_c_ends_a_program_as_any() -> None:
    program = start(f"{__name__}:go_on")
    program.send_signal(signal.SIGINT)
    assert program.wait() == -signal.SIGINT


def test_what_cannot_be_begun_is_told() -> None:
    with pytest.raises(AssertionError, match="it was not begun"):
        start("signal:no_such_function")
