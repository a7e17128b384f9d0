"""This broker as a process that may be killed and started again on the same ports."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from bench.results import MeasurementFailed
from bench.versus.installation import installed_python
from broker.upkeep.upkeep_process import MODULE
from spark.log_location import LogLocation
from tests.support.broker import BrokerFailed, BrokerProcess, start_broker
from tests.support.ports import free_ports

STOP_S: Final = 60.0
UPKEEP_S: Final = 60.0
GLANCE_S: Final = 0.1


class OurBroker:
    """A broker with an embedded Postgres, started at once.

    Attributes:
        bootstrap, http: HOST:PORT, of all workers, separated by commas.
        began_s: when its process was started for the first time (monotonic).
    """

    def __init__(
        self,
        data: Path,
        *,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        workers: int,
        roots: Mapping[str, int],
    ) -> None:
        """Start it and wait until it serves.

        Raises:
            BrokerFailed: it does not.
        """
        port, http_port = free_ports(workers), free_ports(workers)
        self._data = data
        self._listen = f"127.0.0.1:{port}"
        self._arguments = (
            *("--http", f"127.0.0.1:{http_port}"),
            *("--workers", str(workers)),
            *("--set", "group.initial.rebalance.delay.ms=0"),  # as Apache Kafka has it here
            *arguments,
        )
        self._environment = {
            **os.environ,
            **environment,
            "STREAMHOUSE_UPKEEP__ENABLED": "true",  # as its users have it
        }
        self._roots = roots
        self._thread = ThreadPoolExecutor(1, "start")
        self._python = installed_python()
        self.began_s = time.monotonic()
        self._started = self._start()
        try:
            broker = self._started.result()
        except BaseException:  # Ctrl-C while it starts
            self.stop()
            raise
        self.bootstrap = broker.bootstrap
        self.http = broker.http

    @property
    def postgres(self) -> str:
        """DSN of its Postgres."""
        return LogLocation.of({"data": str(self._data)}).postgres

    def roots(self) -> Mapping[str, int]:
        """Return the processes; waits for one that is being started."""
        database = _postmaster(self._data)
        postgres = {} if database is None else {"postgres": database.pid}
        return {"broker": self._started.result().pid, **postgres, **self._roots}

    def wait_for_upkeep(self) -> None:
        """Return when the upkeep process runs; workers share one.

        Raises:
            MeasurementFailed: it does not begin.
        """
        deadline_s = time.monotonic() + UPKEEP_S
        broker = psutil.Process(self._started.result().pid)
        while not any(map(_is_upkeep, broker.children(recursive=True))):
            if time.monotonic() > deadline_s:
                raise MeasurementFailed(f"no upkeep process after {UPKEEP_S:.0f} s")
            time.sleep(GLANCE_S)

    def kill(self) -> None:
        """End it as a crash does; Postgres goes on."""
        self._started.result().kill()

    def start(self) -> None:
        """Start it again; return at once."""
        self._started = self._start()

    def stop(self) -> None:
        """End it in good order, and its Postgres in any case."""
        with suppress(BrokerFailed):
            broker = self._started.result()
            if broker.process.returncode is None:
                with suppress(subprocess.TimeoutExpired):  # it is killed then
                    broker.stop(STOP_S)
        self._thread.shutdown()
        if database := _postmaster(self._data):
            database.send_signal(signal.SIGINT)  # without waiting for its clients
            psutil.wait_procs([database], STOP_S)

    def _start(self) -> "Future[BrokerProcess]":
        return self._thread.submit(
            start_broker,
            self._data,
            *self._arguments,
            listen=self._listen,
            environment=self._environment,
            python=self._python,
            own_session=True,
            has_postgres=False,  # a cold start makes one
            own_imports=True,
        )


def _is_upkeep(process: psutil.Process) -> bool:
    try:
        return MODULE in process.cmdline()
    except psutil.NoSuchProcess:  # it has ended since it was listed
        return False


def _postmaster(data: Path) -> psutil.Process | None:
    """Return the Postgres of this broker, which outlives a broker that was killed."""
    directory = data / "postgres"
    try:
        process = psutil.Process(int((directory / "postmaster.pid").read_text().split()[0]))
        return process if process.cwd() == str(directory.resolve()) else None
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
