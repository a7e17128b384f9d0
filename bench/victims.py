"""Brokers that may be ended and started again: three of our own, or one by its pid file."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import IO, Final, Protocol

import psutil

from bench.results import MeasurementFailed
from tests.support.three_brokers import Trio

GLANCE_S: Final = 0.01
END_S: Final = 60.0
REAP_S: Final = 2.0


class Victims(Protocol):
    """Brokers to end.

    Attributes:
        others_take_over: the cluster goes on without the victim, so that it is started again only
            after clients have recovered; else clients recover when it is back.
    """

    others_take_over: bool

    def end(self, bootstrap: str, signal_number: signal.Signals) -> float:
        """End the broker at HOST:PORT; return when the signal was sent (monotonic, seconds)."""
        ...

    def start(self) -> None:
        """Start the broker that was ended; it may be ready only later."""
        ...

    def check(self) -> None:
        """Raise MeasurementFailed if it is known that the started broker will not come."""
        ...


class TrioVictims:
    """Any of three brokers that this process has started."""

    others_take_over = True

    def __init__(self, trio: Trio) -> None:
        self._trio = trio
        self._ended = -1

    def end(self, bootstrap: str, signal_number: signal.Signals) -> float:
        self._ended = self._trio.bootstraps.index(bootstrap)
        broker = self._trio.brokers[self._ended]
        sent_s = time.monotonic()
        broker.process.send_signal(signal_number)
        broker.process.wait(END_S)
        broker.kill()  # it has ended: this closes our end of its output
        return sent_s

    def start(self) -> None:
        self._trio.restart(self._ended)

    def check(self) -> None:
        """Nothing is left to find out: `start` waits until the broker serves."""


class CommandVictims:
    """One broker that a command starts; it writes its process id to a file.

    What the command says goes to `output`, and from there into the error when no broker comes.
    """

    others_take_over = False

    def __init__(self, command: str, pid_file: Path, output: IO[bytes]) -> None:
        self._command = command
        self._pid_file = pid_file
        self._output = output
        self._starting: subprocess.Popen[bytes] | None = None

    def end(self, bootstrap: str, signal_number: signal.Signals) -> float:
        del bootstrap  # there is only one
        try:
            process = psutil.Process(int(self._pid_file.read_text()))
        except (OSError, ValueError, psutil.NoSuchProcess) as error:
            raise MeasurementFailed(f"no broker to end: {error}{self._said()}") from error
        sent_s = time.monotonic()
        process.send_signal(signal_number)
        while _lives(process, sent_s):
            if time.monotonic() > sent_s + END_S:
                raise MeasurementFailed(f"the broker still runs after {END_S:.0f} s")
            if self._starting is not None:
                self._starting.poll()  # nobody else reaps it, if it is the broker itself
            time.sleep(GLANCE_S)
        return sent_s

    def start(self) -> None:
        """Run the command; it may end when the broker runs, or be the broker."""
        self._starting = subprocess.Popen(  # noqa: S603 (the user's own command)
            ["/bin/sh", "-c", self._command],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
            env=dict(os.environ),
        )

    def check(self) -> None:
        code = None if self._starting is None else self._starting.poll()
        if code:
            raise MeasurementFailed(f"the command ended with {code}{self._said()}")

    def _said(self) -> str:
        self._output.seek(0)
        said = self._output.read()[-1000:].decode(errors="replace").strip()
        return f"; the command said: {said}" if said else ""


def _lives(process: psutil.Process, sent_s: float) -> bool:
    """Return whether a process still is in the way of the next one.

    Its parent, which may be slow, has to take notice of its end before scripts do that look
    whether a process of that id exists.
    """
    try:
        gone = process.status() == psutil.STATUS_ZOMBIE and time.monotonic() > sent_s + REAP_S
    except psutil.NoSuchProcess:
        return False
    return not gone
