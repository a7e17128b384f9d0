"""Apache Kafka 4.3.1 on a free port: one node, broker and controller in one process.

What it is told to be is what makes it comparable: the node id that a first broker here has, and no
replication, for there is one broker.
"""

import base64
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.java_tools import JavaTools, java_tools
from tests.clients.processes import run
from tests.support.ports import free_ports

START_S: Final = 300.0
STOP_S: Final = 60.0
GLANCE_S: Final = 0.05
FORMAT_JVM: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SMALL_JVM: Final = (
    "-Xmx512m",
    "-XX:+UseSerialGC",  # a test's load is small: threads of a collector would only take turns
    "-XX:TieredStopAtLevel=1",
)
BROKER_JVM: Final = (
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)
FEATURES: Final = ("--feature", "eligible.leader.replicas.version=0")
"""Level 1 sets min.insync.replicas for the cluster, which every topic would show as its own."""
STARTED: Final = "Kafka Server started"


class KafkaFailed(AssertionError):
    """Apache Kafka did not start; the message has its log."""


@dataclass(slots=True, kw_only=True)
class ApacheKafka:
    """A started Apache Kafka.

    Attributes:
        process: another one after `start`.
        command: what started it.
        bootstrap: HOST:PORT for clients.
        log: its standard error, as a file.
        began_s: when its process was started (monotonic).
    """

    process: "subprocess.Popen[bytes]"
    command: Sequence[str]
    bootstrap: str
    log: Path
    began_s: float
    own_session: bool

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.process.kill()
        self.process.wait(STOP_S)

    def start(self) -> None:
        """Start it again after `kill`, on what it kept; return at once."""
        self.process = _spawn(self.command, self.log, own_session=self.own_session)


@contextmanager
def running_kafka(
    home: Path,
    settings: Mapping[str, str] | None = None,
    *,
    users: Mapping[str, str] | None = None,
    jvm: Sequence[str] = (),
    sizing: Sequence[str] = SMALL_JVM,
    own_session: bool = False,
) -> Iterator[ApacheKafka]:
    """Run an empty Apache Kafka for the length of a block.

    Args:
        home: an empty directory, for all that it keeps.
        settings: added to its server.properties, or in place of what stands there.
        users: those that it begins with: their passwords, for each SCRAM mechanism.
        jvm: added to the options of its JVM.
        sizing: those of them that say how much memory it takes, and how it collects and compiles.
        own_session: it is not of this process's session; Ctrl-C does not reach it.

    Raises:
        KafkaFailed: it ended, or was not ready in time.
    """
    tools = java_tools("")
    port = free_ports(2)
    file = _write_properties(home, port, port + 1, settings or {})
    _format(tools, file, users or {})
    log = home / "kafka.log"
    java = [tools.java, *sizing, *BROKER_JVM, *jvm, "-cp", f"{tools.jars}/*"]
    command = [*java, "kafka.Kafka", str(file)]
    began_s = time.monotonic()
    kafka = ApacheKafka(
        process=_spawn(command, log, own_session=own_session),
        command=command,
        bootstrap=f"127.0.0.1:{port}",
        log=log,
        began_s=began_s,
        own_session=own_session,
    )
    try:
        _wait_until_started(kafka.process, log)
        yield kafka
    finally:
        kafka.kill()  # nothing that it keeps is needed again, so its end may take no time


def _spawn(command: Sequence[str], log: Path, *, own_session: bool) -> "subprocess.Popen[bytes]":
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=output, start_new_session=own_session
        )


def _write_properties(
    home: Path, port: int, controller_port: int, settings: Mapping[str, str]
) -> Path:
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
    properties = {
        "process.roles": "broker,controller",
        "node.id": "0",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(home / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **settings,
    }
    file = home / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return file


def _format(tools: JavaTools, properties: Path, users: Mapping[str, str]) -> None:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    storage = [tools.java, *FORMAT_JVM, "-cp", f"{tools.jars}/*", "kafka.tools.StorageTool"]
    # with =, for an id may begin with a dash
    named = [f"--cluster-id={cluster_id}", "--config", str(properties), "--standalone"]
    scram = [
        f"--add-scram={mechanism}=[name={user},password={password}]"
        for user, password in users.items()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    run([*storage, "format", *named, *FEATURES, *scram], timeout_s=START_S)


def _wait_until_started(process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_S
    while STARTED not in (text := log.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            raise KafkaFailed(f"Apache Kafka did not start\n{text[-4000:]}")
        time.sleep(GLANCE_S)
