"""WordCount.java as a process: compiled once per machine, started, and killed."""

import functools
import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.cache import filled_once
from tests.clients.java_programs import java_classes
from tests.clients.java_tools import JVM_OPTIONS
from tests.clients.maven import copy_dependencies
from tests.clients.processes import program

POM: Final = Path(__file__).with_name("pom.xml")
SOURCE: Final = Path(__file__).with_name("WordCount.java")
COMPILE_S: Final = 120
PROPERTIES: Final = {
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": 100,
    "num.stream.threads": 2,
    "statestore.cache.max.bytes": 0,  # so that every single count is written
    "repartition.purge.interval.ms": 200,  # so that records are deleted all the time
    "consumer.group.instance.id": "counter",  # so that a restart waits for no session timeout
    "consumer.auto.offset.reset": "earliest",
    "consumer.session.timeout.ms": 10_000,
    "producer.transaction.timeout.ms": 5_000,
    "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
}


@dataclass(slots=True, kw_only=True)
class WordCount:
    """An instance of the application, which may be killed and started again.

    Attributes:
        application: its id: of its group, and in the names of its topics.
        home: where its state and its log are.
    """

    bootstrap: str
    application: str
    input_topic: str
    output_topic: str
    home: Path
    _process: "subprocess.Popen[str] | None" = field(default=None, init=False)

    def start(self) -> None:
        """Start it; it may take a while until it counts."""
        properties = {
            "application.id": self.application,
            "bootstrap.servers": self.bootstrap,
            "state.dir": str(self._state),
            **PROPERTIES,
        }
        pairs = [f"{name}={value}" for name, value in properties.items()]
        class_path = f"{java_classes(SOURCE, jars=_jars())}:{_jars()}/*"
        java = program("java", debian_package="openjdk-17-jre-headless")
        command = [java, *JVM_OPTIONS, "-cp", class_path, "WordCount"]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*command, self.input_topic, self.output_topic, *pairs],
                stdout=log,
                stderr=log,
                text=True,
            )

    def kill(self) -> None:
        """End it at once, wherever it is."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """Lose what it has on disk, as a machine that is replaced: its store, and who it was."""
        shutil.rmtree(self._state, ignore_errors=True)

    def said(self) -> str:
        """Return what it wrote, for when a test fails."""
        return self._log.read_text()[-8_000:]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def _log(self) -> Path:
        return self.home / "word-count.log"

    @property
    def _state(self) -> Path:
        return self.home / "state"


@contextmanager
def killed_in_the_end(application: WordCount) -> Iterator[WordCount]:
    """Leave no process."""
    try:
        yield application
    finally:
        application.kill()


@functools.cache
def _jars() -> Path:
    return filled_once(f"kafka-streams-{_version(POM)}", partial(copy_dependencies, POM))


def _version(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
