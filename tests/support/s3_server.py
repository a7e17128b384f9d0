"""A real S3 server on a free loopback port, that tests may kill, pause and restart.

The first of these that works here is taken, and the log says which:
1. versitygw in a container, where a container engine answers;
2. versitygw from ~/.cache/streamhouse/bin or PATH, or else built into that folder, once, with Go;
3. moto_server, which comes with the development dependencies. It keeps objects in memory, so that
   a restart loses them, and it checks no credentials.

    with S3Server.start(directory) as server:
        server.create_bucket("records")
        broker = start_broker(store=server.store_url("records"), env=server.environment())
        server.kill()
        server.restart()
"""

import http.client
import logging
import os
import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.session import Session

from tests.support.ports import free_port
from tests.support.s3_runners import (
    ContainerRunner,
    Runner,
    find_versitygw,
    moto_runner,
    versitygw_runner,
)

ACCESS_KEY: Final = "streamhouse-test"
SECRET_KEY: Final = "streamhouse-test-secret"
REGION: Final = "us-east-1"
READY_TIMEOUT_S: Final = 60.0
ANSWER_S: Final = 10.0
SHOWN_CHARACTERS: Final = 2_000

log = logging.getLogger(__name__)


class S3Server:
    """One running server. Its port, objects and buckets are the same after `restart`."""

    def __init__(self, runner: Runner, port: int, authority: Path | None = None) -> None:
        self.port = port
        self.endpoint = f"{'https' if authority else 'http'}://127.0.0.1:{port}"
        self._authority = authority
        self._runner = runner
        self._buckets: list[str] = []

    @classmethod
    def start(cls, directory: Path) -> Self:
        """Start whichever server works here; `directory` takes its data and log."""
        port = free_port()
        if _engine_answers():
            try:
                return cls._started(
                    ContainerRunner(port=port, environment=_server_environment()), port
                )
            except OSError as error:  # what the engine's client raises, too: no image, no network
                log.warning("no S3 server in a container: %s", error)
        program = find_versitygw()
        if program is None:
            return cls._started(moto_runner(directory, port=port), port)
        runner = versitygw_runner(program, directory, port=port, environment=_server_environment())
        return cls._started(runner, port)

    @classmethod
    def start_tls(cls, directory: Path, certificate: Path, key: Path, authority: Path) -> Self:
        """Start a process that speaks https only; who asks it trusts the certificates of a file."""
        port = free_port()
        program = find_versitygw()
        if program is None:
            options: Sequence[str | Path] = ("--ssl-cert", certificate, "--ssl-key", key)
            return cls._started(moto_runner(directory, port=port, options=options), port, authority)
        runner = versitygw_runner(
            program,
            directory,
            port=port,
            environment=_server_environment(),
            options=("--cert", certificate, "--key", key),
        )
        return cls._started(runner, port, authority)

    @classmethod
    def _started(cls, runner: Runner, port: int, authority: Path | None = None) -> Self:
        server = cls(runner, port, authority)
        server.restart()
        log.info("S3 server: %s at %s", server.kind, server.endpoint)
        return server

    @property
    def kind(self) -> str:
        """What runs: a program, a container image, or moto."""
        return self._runner.kind

    def environment(self) -> dict[str, str]:
        """Return what the standard credentials chain of a client needs, and nothing else counts."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def store_url(self, bucket: str, prefix: str = "") -> str:
        """Return the URL of an object store, as `streamhouse serve --store` takes it."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&region={REGION}"

    def create_bucket(self, bucket: str) -> None:
        """Make an empty bucket."""
        self._create_bucket(bucket)
        self._buckets.append(bucket)

    def kill(self) -> None:
        """End it as a power cut would; connections are reset, new ones refused."""
        self._runner.kill()

    def stop(self) -> None:
        """End it in good order."""
        self._runner.stop()

    def pause(self) -> None:
        """Let it answer nothing; connections stay open, and new ones are accepted by the kernel."""
        self._runner.pause()

    def resume(self) -> None:
        """Undo `pause`."""
        self._runner.resume()

    def restart(self) -> None:
        """Start it again on the same port, with the same objects (moto: with empty buckets)."""
        self._runner.kill()
        self._runner.start()
        self._wait_until_ready()
        if not self._runner.durable:
            for bucket in self._buckets:
                self._create_bucket(bucket)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _create_bucket(self, bucket: str) -> None:
        client: Any = Session().create_client(
            "s3",
            region_name=REGION,
            endpoint_url=self.endpoint,
            verify=str(self._authority) if self._authority else None,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=Config(s3={"addressing_style": "path"}),
        )
        try:
            client.create_bucket(Bucket=bucket)
        finally:
            client.close()

    def _wait_until_ready(self) -> None:
        """Wait for any HTTP answer; an open port is not enough, as a container's proxy has one."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            connection = self._connection()
            try:
                connection.request("GET", "/")
                connection.getresponse().read()
            except (OSError, http.client.HTTPException) as error:
                if not self._runner.is_running() or time.monotonic() > deadline:
                    said = self._runner.output()[-SHOWN_CHARACTERS:]
                    raise AssertionError(f"{self.kind} does not answer:\n{said}") from error
                time.sleep(0.02)
            else:
                return
            finally:
                connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._authority is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        context = ssl.create_default_context(cafile=self._authority)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=ANSWER_S, context=context
        )


def _server_environment() -> dict[str, str]:
    return {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}


def _engine_answers() -> bool:
    """Tell whether a container engine listens where its clients look for it."""
    host = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    family, address = (
        (socket.AF_UNIX, host.path)
        if host.scheme == "unix"
        else (socket.AF_INET, (host.hostname, host.port or 2375))
    )
    with socket.socket(family) as probe:
        probe.settimeout(1)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True
