"""A broker that counts what it does (bench/counted_broker.py), and what it may do (costs.toml)."""

import asyncio
import json
import os
import signal
import tomllib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.broker import BrokerProcess, start_broker

DEADLINE_S: Final = 120.0
IDLE_S: Final = 2.0
ATTEMPTS: Final = 3
ATTEMPTS_WITH_LIMITS: Final = 30  # seconds each, and nearly always the first one is enough
WON: Final = 0.7
"""Below this share of a limit, the limit is to be lowered."""

LIMITS: Final[Mapping[str, Any]] = tomllib.loads(
    (Path(__file__).parents[2] / "bench" / "costs.toml").read_text()
)


@dataclass(slots=True)
class CountedBroker:
    """A broker, and the file that it writes counts to.

    Attributes:
        home: its data directory.
        idle: what it does in a second by itself, in calls; so that a busy machine, on which the
            same requests take longer, does not count against them.
    """

    process: BrokerProcess
    home: Path
    file: Path
    idle: Mapping[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin to count calls."""
        self._begin(signal.SIGUSR1)

    def begin_memory(self) -> None:
        """Begin to trace memory."""
        self._begin(signal.SIGPROF)

    def _begin(self, number: signal.Signals) -> None:
        self.file.unlink(missing_ok=True)
        os.kill(self.process.pid, number)

    async def end(self) -> dict[str, float]:
        """Return what was counted since the beginning, without what comes with time."""
        counts = await self._read()
        seconds = counts.pop("seconds", 0.0)
        return {kind: count - self.idle.get(kind, 0) * seconds for kind, count in counts.items()}

    async def learn_idle(self) -> None:
        """Find out what it does while nobody asks.

        It tells for how long it has counted: on a busy machine that is longer than it was to be,
        and an idle second that is taken for busier than it is would make requests look cheap.
        """
        self.begin()
        await asyncio.sleep(IDLE_S)
        counts = await self._read()
        seconds = counts.pop("seconds")
        self.idle = {kind: count / seconds for kind, count in counts.items()}

    async def _read(self) -> dict[str, float]:
        os.kill(self.process.pid, signal.SIGUSR2)
        async with asyncio.timeout(DEADLINE_S):
            while not self.file.exists():
                await asyncio.sleep(0.01)
        counts: dict[str, float] = json.loads(self.file.read_text())
        return counts


@contextmanager
def counted_broker(home: Path) -> Iterator[CountedBroker]:
    """Run one on `home`, for as long as the block takes."""
    file = home / "counts.json"
    process = start_broker(home, program=("bench.counted_broker", str(file)))
    try:
        broker = CountedBroker(process, home, file)
        asyncio.run(broker.learn_idle())
        yield broker
    finally:
        process.stop()


async def least(
    count: Callable[[], Awaitable[Mapping[str, float]]], limits: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the least that the same work was counted with, kind by kind.

    What a broker does by itself comes in bursts, more of them on a busy machine: a share of that is
    taken away, and what is left of it is only ever added. So with `limits` one count within them
    is enough, and more counts are taken until there is one.
    """
    found: dict[str, float] = {}
    for _ in range(ATTEMPTS if limits is None else ATTEMPTS_WITH_LIMITS):
        for kind, cost in (await count()).items():
            found[kind] = min(cost, found.get(kind, cost))
        if limits is not None and all(found[kind] <= limits[kind] for kind in limits):
            break
    return found


def check(what: str, cost: float, limit: float) -> None:
    """Assert that it costs no more than it may, and not so little that the limit is stale."""
    assert WON * limit <= cost <= limit, f"{what}: {cost:.2f}, and the limit is {limit}"
