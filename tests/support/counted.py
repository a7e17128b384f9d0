"""A broker that counts what it does (bench/counted_broker.py), and what it may do (costs.toml)."""

import asyncio
import json
import os
import signal
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.broker import BrokerProcess, start_broker

DEADLINE_S: Final = 20.0
WON: Final = 0.7
"""Below this share of a limit, the limit is to be lowered."""

LIMITS: Final[Mapping[str, Any]] = tomllib.loads(
    (Path(__file__).parents[2] / "bench" / "costs.toml").read_text()
)


@dataclass(frozen=True, slots=True)
class CountedBroker:
    """A broker, and the file that it writes counts to.

    Attributes:
        home: its data directory.
    """

    process: BrokerProcess
    home: Path
    file: Path

    def begin(self) -> None:
        """Begin to count calls."""
        self._begin(signal.SIGUSR1)

    def begin_memory(self) -> None:
        """Begin to trace memory."""
        self._begin(signal.SIGPROF)

    def _begin(self, number: signal.Signals) -> None:
        self.file.unlink(missing_ok=True)
        os.kill(self.process.pid, number)

    async def end(self) -> dict[str, int]:
        """Return what was counted since the beginning."""
        os.kill(self.process.pid, signal.SIGUSR2)
        async with asyncio.timeout(DEADLINE_S):
            while not self.file.exists():
                await asyncio.sleep(0.01)
        counts: dict[str, int] = json.loads(self.file.read_text())
        return counts


@contextmanager
def counted_broker(home: Path) -> Iterator[CountedBroker]:
    """Run one on `home`, for as long as the block takes."""
    file = home / "counts.json"
    process = start_broker(home, program=("bench.counted_broker", str(file)))
    try:
        yield CountedBroker(process, home, file)
    finally:
        process.stop()


def check(what: str, cost: float, limit: float) -> None:
    """Assert that it costs no more than it may, and not so little that the limit is stale."""
    assert WON * limit <= cost <= limit, f"{what}: {cost:.2f}, and the limit is {limit}"
