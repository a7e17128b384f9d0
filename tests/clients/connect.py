"""Kafka Connect 4.3.1 with its file connectors: workers as processes, connectors by their REST."""

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.clients.cache import filled_once
from tests.clients.maven import copy_dependencies
from tests.clients.processes import program
from tests.support.ports import free_port

POM: Final = Path(__file__).with_name("connect_pom.xml")
WAIT_S: Final = 300.0
_POLL_S: Final = 0.1
_NOT_YET: Final = (404, 409, 500, 503)  # the worker starts, or a rebalance is under way
_JVM_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"

Config = Mapping[str, str]


class ConnectFailed(AssertionError):
    """A worker did not do its part in time; the message has what it logged."""


@dataclass(slots=True)
class Worker:
    """One process of Kafka Connect.

    Attributes:
        address: HOST:PORT of its REST API, which is its name among the workers.
    """

    process: "subprocess.Popen[bytes]"
    address: str
    log: Path

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.process.kill()
        self.process.wait()

    def put_connector(self, name: str, config: Config) -> None:
        """Create a connector; the first call waits until the worker is there."""

        def put() -> bool:
            try:
                self._ask(f"/connectors/{name}/config", config)
            except HTTPError as error:
                if error.code not in _NOT_YET:
                    raise
                return False
            except URLError:
                return False
            return True

        self.wait_until(f"connector {name} is there", put)

    def task_worker(self, connector: str) -> str:
        """Return the address of the worker that runs a connector's only task; empty if none."""
        try:
            tasks = self._ask(f"/connectors/{connector}/status")["tasks"]
        except HTTPError:
            return ""
        running = [str(task["worker_id"]) for task in tasks if task["state"] == "RUNNING"]
        return running[0] if running else ""

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition.

        Raises:
            ConnectFailed: it did not come true in time, or the worker ended.
        """
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s and self.process.poll() is None:
            if condition():
                return
            time.sleep(_POLL_S)
        raise ConnectFailed(f"not so: {what}\n{self.log.read_text()[-4000:]}")

    def _ask(self, path: str, body: Config | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"http://{self.address}{path}", data, method="PUT" if data else "GET")
        request.add_header("Content-Type", "application/json")
        with urlopen(request, timeout=WAIT_S) as response:
            return json.load(response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """Kafka Connect, pointed at one cluster.

    Attributes:
        directory: where workers keep their settings and logs.
        bootstrap: HOST:PORT.
    """

    directory: Path
    bootstrap: str

    @contextmanager
    def standalone(self, *connectors: Config) -> Iterator[Worker]:
        """Run connectors in a worker that keeps its offsets in a file."""
        offsets = {"offset.storage.file.filename": str(self.directory / "offsets")}
        files = [self._write(config["name"], config) for config in connectors]
        worker = self._start("ConnectStandalone", "standalone", offsets, files)
        with _ended([worker]):
            yield worker

    @contextmanager
    def distributed(self, group: str, count: int, settings: Config) -> Iterator[list[Worker]]:
        """Run workers that share connectors as a group, and keep all they know in three topics."""
        topics = {f"{kind}.storage.topic": f"{group}-{kind}s" for kind in ("config", "offset")}
        topics["status.storage.topic"] = f"{group}-status"
        kept = {name.replace("topic", "replication.factor"): "1" for name in topics}
        partitions = {"offset.storage.partitions": "3", "status.storage.partitions": "2"}
        given = {"group.id": group, **topics, **kept, **partitions, **settings}
        workers = [
            self._start("ConnectDistributed", f"{group}-{number}", given, [])
            for number in range(count)
        ]
        with _ended(workers):
            yield workers

    def _start(self, main: str, name: str, settings: Config, files: Sequence[Path]) -> Worker:
        java = program("java", debian_package="openjdk-17-jre-headless")
        version = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
        jars = filled_once(f"connect-{version}", partial(copy_dependencies, POM))
        address = f"127.0.0.1:{free_port()}"
        (plugin,) = jars.glob("connect-file-*.jar")
        common = {
            "bootstrap.servers": self.bootstrap,
            "key.converter": _CONVERTER,
            "value.converter": _CONVERTER,
            "listeners": f"http://{address}",
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "service_load",
            "plugin.path": str(plugin),
        }
        log = self.directory / f"{name}.log"
        arguments = [str(self._write(name, {**common, **settings})), *map(str, files)]
        main_class = f"org.apache.kafka.connect.cli.{main}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [java, *_JVM_OPTIONS, "-cp", f"{jars}/*", main_class, *arguments],
                stdout=output,
                stderr=output,
            )
        return Worker(process, address, log)

    def _write(self, name: str, config: Config) -> Path:
        path = self.directory / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        return path


@contextmanager
def _ended(workers: Sequence[Worker]) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
