"""Ways to run an S3 server: as a container, or as a process of this machine."""

import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

VERSITYGW_VERSION: Final = "v1.8.0"
VERSITYGW_MODULE: Final = "github.com/versity/versitygw/cmd/versitygw"
VERSITYGW_IMAGE: Final = f"versity/versitygw:{VERSITYGW_VERSION}"
BUILD_TIMEOUT_S: Final = 900.0
STOP_TIMEOUT_S: Final = 10.0
# Without keep-alive it would close the connection after every answer, as no other server does.
VERSITYGW_OPTIONS: Final = ("--quiet", "--keep-alive")

log = logging.getLogger(__name__)


class Runner(Protocol):
    """One server; `start` may be called again after `kill` or `stop`.

    Attributes:
        kind: what runs, for the log.
        durable: objects survive a kill and a start.
    """

    kind: str
    durable: bool

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def is_running(self) -> bool: ...
    def output(self) -> str: ...


class ProcessRunner:
    """A child process, in its own session: Ctrl-C reaches the tests, and they stop it."""

    def __init__(
        self,
        kind: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        log_file: Path,
        durable: bool,
    ) -> None:
        self.kind = kind
        self.durable = durable
        self._command = command
        self._environment = {**os.environ, **environment}
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log_file.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> None:
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a paused process would never see the signal above
        if self._process is not None:
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        if self._process is not None:  # until the last of its threads has stopped
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        return self._log_file.read_text(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


class ContainerRunner:
    """A container whose objects live in its own file system; it is removed by `stop`."""

    durable = True

    def __init__(self, *, port: int, environment: Mapping[str, str]) -> None:
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 (asks the engine)

        self.kind = f"{VERSITYGW_IMAGE} in a container"
        command = [*VERSITYGW_OPTIONS, "--port", ":7070", "posix", "--sidecar", "/opt", "/srv"]
        self._container = (
            DockerContainer(VERSITYGW_IMAGE)
            .with_envs(**environment)
            .with_bind_ports(7070, port)
            .with_command(command)
        )
        self._created = False

    def start(self) -> None:
        if self._created:
            self._container.get_wrapped_container().start()
            return
        self._container.start()
        self._created = True

    def stop(self) -> None:
        self._container.stop()
        self._created = False

    def kill(self) -> None:
        if self.is_running():
            self._container.get_wrapped_container().kill()

    def pause(self) -> None:
        self._container.get_wrapped_container().pause()

    def resume(self) -> None:
        self._container.get_wrapped_container().unpause()

    def is_running(self) -> bool:
        if not self._created:
            return False
        container = self._container.get_wrapped_container()
        container.reload()
        return bool(container.status in {"running", "paused"})

    def output(self) -> str:
        stdout, stderr = self._container.get_logs()
        return (stdout + stderr).decode(errors="replace")


def versitygw_runner(
    program: Path,
    directory: Path,
    *,
    port: int,
    environment: Mapping[str, str],
    options: Sequence[str | Path] = (),
) -> ProcessRunner:
    """Run the program with all its data in `directory`."""
    data, sidecar = directory / "data", directory / "sidecar"  # the latter: no xattrs needed
    data.mkdir(parents=True, exist_ok=True)
    sidecar.mkdir(exist_ok=True)
    listen = [*VERSITYGW_OPTIONS, "--port", f"127.0.0.1:{port}"]
    return ProcessRunner(
        str(program),
        [program, *listen, *options, "posix", "--sidecar", sidecar, data],
        environment=environment,
        log_file=directory / "server.log",
        durable=True,
    )


def moto_runner(directory: Path, *, port: int, options: Sequence[str | Path] = ()) -> ProcessRunner:
    """Run moto; objects live in its memory."""
    directory.mkdir(parents=True, exist_ok=True)
    return ProcessRunner(
        "moto_server",
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port), *options],
        environment={},
        log_file=directory / "server.log",
        durable=False,
    )


def find_versitygw() -> Path | None:
    """Return the program, built if it is not there yet; None if that is not possible here."""
    folder = Path.home() / ".cache" / "streamhouse" / "bin"
    program = folder / "versitygw"
    if program.is_file():
        return program
    if found := shutil.which("versitygw"):
        return Path(found)
    if not shutil.which("go"):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test runs may start at once
        return program if program.is_file() or _build_versitygw(program) else None


def _build_versitygw(program: Path) -> bool:
    log.info("building versitygw %s with Go, once", VERSITYGW_VERSION)
    with tempfile.TemporaryDirectory(dir=program.parent) as unfinished:
        try:
            subprocess.run(
                ["go", "install", f"{VERSITYGW_MODULE}@{VERSITYGW_VERSION}"],
                env={**os.environ, "GOBIN": unfinished},
                check=True,
                capture_output=True,
                timeout=BUILD_TIMEOUT_S,
            )
        except subprocess.CalledProcessError as failed:
            log.warning("versitygw cannot be built: %s", failed.stderr.decode(errors="replace"))
            return False
        except subprocess.TimeoutExpired:
            log.warning("versitygw was not built in %g s", BUILD_TIMEOUT_S)
            return False
        (Path(unfinished) / program.name).rename(program)
    return True
