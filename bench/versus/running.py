"""A contender that runs: where it is reached, what its processes use, and how it is ended."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import psutil

MIB: Final = 1 << 20
STORE: Final = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What process trees have used, by role.

    Attributes:
        cpu_s: CPU seconds so far, of user and system, ended children included.
        memory_bytes: resident now, added up over the processes; what several share counts once
            (proportional set size), as Postgres' buffers in each of its processes.
    """

    cpu_s: Mapping[str, float]
    memory_bytes: Mapping[str, int]

    def since(self, before: "Usage") -> "Usage":
        """Return the CPU used since then, and the memory of now."""
        used = {role: value - before.cpu_s.get(role, 0) for role, value in self.cpu_s.items()}
        return Usage(cpu_s=used, memory_bytes=self.memory_bytes)

    @property
    def broker_cpu_s(self) -> float:
        """CPU seconds of broker and Postgres; an S3 server would be another machine's."""
        return sum(value for role, value in self.cpu_s.items() if role != STORE)

    @property
    def broker_memory_mib(self) -> float:
        """MiB of broker and Postgres."""
        return sum(value for role, value in self.memory_bytes.items() if role != STORE) / MIB


class Broker(Protocol):
    """The processes behind a `Running`."""

    def roots(self) -> Mapping[str, int]:
        """Return the pid of each role's first process: broker, and if there are, postgres, store.

        A tree that stands inside another one is taken out of it.
        """
        ...

    def wait_for_upkeep(self) -> None:
        """Return when the processes for work in the background run, if there are any.

        Raises:
            MeasurementFailed: they do not begin.
        """
        ...

    def kill(self) -> None:
        """End the broker as a crash does; Postgres and store go on."""
        ...

    def start(self) -> None:
        """Start it again on the same data and port; return at once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A started contender.

    Attributes:
        name: of the contender.
        bootstrap: HOST:PORT for clients; a comma between several.
        home: an empty directory at the beginning; what the contender keeps lies in it.
        began_s: when its broker's process was started for the first time (monotonic).
        http: HOST:PORT of our metrics; empty for Apache Kafka. The same after `start_again`.
        postgres: DSN of our embedded Postgres; empty for Apache Kafka.
    """

    name: str
    bootstrap: str
    home: Path
    broker: Broker
    began_s: float
    http: str = ""
    postgres: str = ""

    @property
    def roots(self) -> Mapping[str, int]:
        """The pid of each role's process tree, as it is now."""
        return self.broker.roots()

    def usage(self) -> Usage:
        """Return what all processes have used until now; of a killed broker nothing is left."""
        roots = self.roots
        trees = {role: _tree(pid) for role, pid in roots.items()}
        for role, pid in roots.items():
            for other, tree in trees.items():
                if other != role and any(one.pid == pid for one in tree):
                    trees[other] = tree - trees[role]
        return Usage(
            cpu_s={role: cpu_seconds(tree) for role, tree in trees.items()},
            memory_bytes={role: _memory_bytes(tree) for role, tree in trees.items()},
        )

    def kill_broker(self) -> None:
        """End the broker with kill -9 and wait until it is gone."""
        self.broker.kill()

    def start_again(self) -> None:
        """Start the killed broker on the same data and port; it serves some time later."""
        self.broker.start()


def cpu_seconds(processes: set[psutil.Process]) -> float:
    """Return what they have used, and what their children had when they ended."""
    total = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # its parent has it by now
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _tree(pid: int) -> set[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return {process, *process.children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def _memory_bytes(processes: set[psutil.Process]) -> int:
    total = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total
