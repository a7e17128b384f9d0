"""Apicurio Registry 2.6, a schema registry that also speaks Confluent's API, from Maven.

It keeps its schemas in memory. Version 3 needs a newer Java than Debian 12 has.
"""

import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from tests.clients.cache import filled_once, one_at_a_time
from tests.clients.maven import RESOLVE_S
from tests.clients.processes import program, run
from tests.support.ports import free_port

VERSION: Final = "2.6.13.Final"
START_S: Final = 300.0
_ARTIFACT: Final = "apicurio-registry-app"
_JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class RegistryFailed(AssertionError):
    """The registry did not start; the message has its log."""


@dataclass(slots=True)
class Apicurio:
    """A running registry.

    Attributes:
        url: of its Confluent-compatible API.
    """

    process: "subprocess.Popen[bytes]"
    url: str

    def pause(self) -> None:
        """Let it hang: connections are accepted, nothing is answered."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)  # until its last thread has stopped

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def running_apicurio(directory: Path) -> Iterator[Apicurio]:
    """Run the registry for the length of a block; the first call on a machine fetches 140 MB.

    Raises:
        RegistryFailed: it ended, or did not answer in time.
    """
    java = program("java", debian_package="openjdk-17-jre-headless")
    home = filled_once(f"apicurio-registry-{VERSION}", _resolve)
    port = free_port()
    log = directory / "apicurio.log"
    jar = home / f"{_ARTIFACT}-{VERSION}-runner.jar"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [java, *_JVM_OPTIONS, "-jar", str(jar)],
            stdout=output,
            stderr=output,
            env=os.environ | {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)},
        )
    registry = Apicurio(process, f"http://127.0.0.1:{port}/apis/ccompat/v7")
    try:
        _wait(registry, log)
        yield registry
    finally:
        process.kill()
        process.wait()


def _wait(registry: Apicurio, log: Path) -> None:
    deadline_s = time.monotonic() + START_S
    while registry.process.poll() is None and time.monotonic() < deadline_s:
        try:
            with urlopen(f"{registry.url}/subjects", timeout=START_S):
                return
        except OSError:  # refused; or ended, for it has only just begun to listen
            time.sleep(0.1)
    raise RegistryFailed(log.read_text()[-4000:])


def _resolve(directory: Path) -> None:
    maven = [program("mvn", debian_package="maven"), "--batch-mode", "--quiet"]
    artifact = f"io.apicurio:{_ARTIFACT}:{VERSION}:tar.gz:all"
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    place = f"-DoutputDirectory={directory}"
    with one_at_a_time("maven"):  # its local repository stands one process at a time
        run([*maven, copy, f"-Dartifact={artifact}", place], timeout_s=RESOLVE_S)
    (archive,) = directory.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(directory, filter="data")
    archive.unlink()
