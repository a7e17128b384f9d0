"""The command line as people run it: a process, against a real broker.

STREAMHOUSE_TEST_BOOTSTRAP names a broker to test against (Apache Kafka, say); without it one of
this project's is started.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.main import main
from tests.support.broker import running_broker

BOOTSTRAP_VARIABLE: Final = "STREAMHOUSE_TEST_BOOTSTRAP"
FINISH_S: Final = 60
COMMAND: Final = (sys.executable, "-c", "from streamctl.main import main; main()")
REPOSITORY: Final = Path(__file__).parents[2]


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


class Running:
    """A command that goes on; what it says on stderr is waited for, never slept for."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._watchdog = threading.Timer(FINISH_S, process.kill)
        self._watchdog.start()
        self._heard: list[str] = []

    def wait_for_note(self, text: str) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._heard.append(line.decode())
            if text in self._heard[-1]:
                return
        raise AssertionError(f"ended without saying {text!r}: {''.join(self._heard)}")

    def read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().rstrip("\n")

    def interrupt(self) -> Ended:
        self._process.send_signal(signal.SIGINT)
        return self.finish()

    def finish(self) -> Ended:
        out, err = self._process.communicate()
        self._watchdog.cancel()
        return Ended(
            exit_code=self._process.returncode, out=out, err="".join(self._heard) + err.decode()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamctl:
    """Runs `streamctl` against one broker."""

    bootstrap: str

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Ended:
        ended = subprocess.run(
            (*COMMAND, *arguments),
            input=stdin,
            capture_output=True,
            env=self._environment(),
            cwd=REPOSITORY,
            timeout=FINISH_S,
            check=False,
        )
        return Ended(exit_code=ended.returncode, out=ended.stdout, err=ended.stderr.decode())

    def well(self, *arguments: str, stdin: bytes = b"") -> Ended:
        """Run a command that has to succeed."""
        ended = self(*arguments, stdin=stdin)
        assert ended.exit_code == 0, ended.err
        return ended

    def start(self, *arguments: str) -> Running:
        return Running(
            subprocess.Popen(
                (*COMMAND, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment(),
                cwd=REPOSITORY,
            )
        )

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "STREAMHOUSE_HTTP"}
        return {**kept, "STREAMHOUSE_BOOTSTRAP": self.bootstrap, "TERM": "dumb"}


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    named = os.environ.get(BOOTSTRAP_VARIABLE)
    if named:
        yield named
        return
    with running_broker(tmp_path_factory.mktemp("streamctl") / "data") as broker:
        yield broker.bootstrap


@pytest.fixture
def streamctl(bootstrap: str) -> Streamctl:
    return Streamctl(bootstrap=bootstrap)


@pytest.fixture(scope="session")
def cluster(bootstrap: str) -> Cluster:
    """Return a connection of our own, so that not every topic costs two processes."""
    return Cluster(Connection(bootstrap=bootstrap))


@pytest.fixture
def topic_name(cluster: Cluster) -> Iterator[str]:
    """Yield a new name; a topic of that name is gone after the test."""
    name = f"topic-{uuid4().hex[:12]}"
    yield name
    if name in cluster.topic_names():
        cluster.delete_topic(name)


@pytest.fixture
def topic(cluster: Cluster, topic_name: str) -> str:
    """Return a topic with seven partitions."""
    cluster.create_topic(topic_name, partitions=7, replication_factor=-1, settings={})
    return topic_name


@pytest.fixture
def run_here(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Return a function that runs a command in this process: for what asks no broker."""
    monkeypatch.setenv("STREAMHOUSE_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("TERM", "dumb")

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["streamctl", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(exit_code=ended.value.code, out=out.encode(), err=err)

    return run
