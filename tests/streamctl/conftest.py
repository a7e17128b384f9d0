"""The command line as people run it: a process, against a real broker.

STREAMHOUSE_TEST_BOOTSTRAP names a broker to test against (Apache Kafka, say); without it one of
this project's is started.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, Message, Producer

from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.groups import Groups
from streamctl.main import main
from tests.streamctl.forks import Ended
from tests.streamctl.forks import run as run_forked
from tests.support.broker import running_broker

BOOTSTRAP_VARIABLE: Final = "STREAMHOUSE_TEST_BOOTSTRAP"
FINISH_S: Final = 240
COMMAND: Final = (sys.executable, "-c", "from streamctl.main import main; main()")
REPOSITORY: Final = Path(__file__).parents[2]


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

    def terminate(self) -> Ended:
        self._process.terminate()
        return self.finish()

    def kill(self) -> Ended:
        self._process.kill()
        return self.finish()

    def stop_reading(self) -> Ended:
        """Close our end of its stdout, as `head` does, and wait for it to end."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        assert self._process.stderr is not None
        err = self._process.stderr.read().decode()
        exit_code = self._process.wait()
        self._watchdog.cancel()
        self._process.stderr.close()
        return Ended(exit_code=exit_code, out=b"", err="".join(self._heard) + err)

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
        return run_forked(
            arguments, stdin=stdin, environment=self._environment(), timeout_s=FINISH_S
        )

    def well(self, *arguments: str, stdin: bytes = b"") -> Ended:
        """Run a command that has to succeed."""
        ended = self(*arguments, stdin=stdin)
        assert ended.exit_code == 0, ended.err
        return ended

    def start(self, *arguments: str, stdin: int | BinaryIO = subprocess.DEVNULL) -> Running:
        return Running(
            subprocess.Popen(
                (*COMMAND, *arguments),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,  # what a line was not read from is left to `finish`
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
    home = tmp_path_factory.mktemp("streamctl") / "data"
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    with running_broker(home, *(word for one in settings for word in ("--set", one))) as broker:
        yield broker.bootstrap


@pytest.fixture
def streamctl(bootstrap: str) -> Streamctl:
    return Streamctl(bootstrap=bootstrap)


@pytest.fixture(scope="session")
def cluster(bootstrap: str) -> Cluster:
    """Return a connection of our own, so that not every topic costs two processes."""
    return Cluster(Connection(bootstrap=bootstrap))


@pytest.fixture(scope="session")
def groups(cluster: Cluster) -> Groups:
    return Groups(cluster.requests)


@pytest.fixture
def group(groups: Groups) -> Iterator[str]:
    """Yield a new group's name; a group of that name is gone after the test."""
    name = f"group-{uuid4().hex[:12]}"
    yield name
    give_up = time.monotonic() + FINISH_S  # a killed member stays for its session timeout
    while (state := groups.states([name]).get(name)) is not None:
        if not state.members:
            groups.delete(name)
            return
        assert time.monotonic() < give_up, state
        time.sleep(0.2)


@pytest.fixture(scope="session")
def send(bootstrap: str) -> Callable[..., None]:
    """Return a function that produces values to a partition, and waits until they are there."""
    producer = Producer({"bootstrap.servers": bootstrap})

    def produce(
        topic: str, partition: int, values: Iterable[str], *, timestamp_ms: int = 0
    ) -> None:
        """Produce; 0 is the time of now."""
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                refused.append(error)

        for value in values:
            producer.produce(
                *(topic, value),
                partition=partition,
                timestamp=timestamp_ms,
                on_delivery=delivered,
            )
        assert producer.flush(FINISH_S) == 0
        assert refused == []

    return produce


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
    create_topic(cluster, topic_name, partitions=7)
    return topic_name


def create_topic(cluster: Cluster, name: str, *, partitions: int) -> None:
    """Create a topic and wait until it has leaders: a controller may answer before."""
    cluster.create_topic(name, partitions=partitions, replication_factor=-1, settings={})
    give_up = time.monotonic() + FINISH_S
    while name not in cluster.topic_names() or any(
        at.leader is None for at in cluster.topic(name).partitions
    ):
        assert time.monotonic() < give_up, name
        time.sleep(0.02)


def lift_login_limits(patched: pytest.MonkeyPatch) -> None:
    """Let both clients of commands wait long for a login; what is told at once comes before."""
    for limit in ("cluster.CONNECT_TIMEOUT_S", "wire.CONNECT_TIMEOUT_S", "wire.REQUEST_TIMEOUT_S"):
        patched.setattr(f"streamctl.{limit}", FINISH_S)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + FINISH_S
    while not condition():
        assert time.monotonic() < give_up, f"waited in vain: {what}"
        time.sleep(0.05)


@pytest.fixture
def run_here(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Return a function that runs a command in this process: it asks no broker, or a test
    lifts its time limits."""
    monkeypatch.setenv("STREAMHOUSE_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("TERM", "dumb")

    def run(*arguments: str) -> Ended:
        capfd.readouterr()  # what the test itself has logged
        monkeypatch.setattr(sys, "argv", ["streamctl", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(exit_code=ended.value.code, out=out.encode(), err=err)

    return run
