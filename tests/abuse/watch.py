"""What an attack does to the broker's processes: memory, files, log, the event loop's lag."""

import asyncio
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from tests.support.broker import BrokerProcess
from tests.support.host import stolen_s

SAMPLE_S: Final = 1.0
_METRICS_S: Final = 10.0
_LAG: Final = re.compile(
    r'^streamhouse_event_loop_lag_seconds_bucket\{le="(\S+)"\} (\S+)$', re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The broker at one moment.

    Attributes:
        rss: bytes of each process: serving, upkeep.
        files: open descriptors of the serving process.
        log_bytes: of its log so far.
        stolen_s: since the machine started, of each processor, on the average.
    """

    at_s: float
    rss: tuple[int, int]
    files: int
    log_bytes: int
    stolen_s: float


@dataclass(slots=True)
class Watch:
    """Looks at a broker once a second, as long as `run` runs."""

    broker: BrokerProcess
    samples: list[Sample] = field(default_factory=list)

    async def run(self) -> None:
        while True:
            self.samples.append(await asyncio.to_thread(self.sample))
            await asyncio.sleep(SAMPLE_S)

    def sample(self) -> Sample:
        """Look now."""
        serving = psutil.Process(self.broker.pid)
        log: Path = self.broker.log
        return Sample(
            at_s=time.monotonic(),
            rss=(serving.memory_info().rss, _upkeep_rss(serving)),
            files=serving.num_fds(),
            log_bytes=log.stat().st_size,
            stolen_s=stolen_s(),
        )

    def since(self, at_s: float) -> list[Sample]:
        return [sample for sample in self.samples if sample.at_s >= at_s]


def _upkeep_rss(serving: psutil.Process) -> int:
    """Return the bytes of the other Python processes that the broker started."""
    total = 0
    for child in serving.children(recursive=True):
        try:
            if "python" in Path(child.exe()).name:
                total += child.memory_info().rss
        except psutil.Error:  # it ended meanwhile
            continue
    return total


def metrics(broker: BrokerProcess) -> str:
    """Return what GET /metrics says; empty if it does not answer in time."""
    try:
        with urlopen(f"http://{broker.http}/metrics", timeout=_METRICS_S) as response:
            text: str = response.read().decode()
    except (URLError, TimeoutError):
        return ""
    return text


def metric(text: str, name: str) -> float:
    """Return the value of a series without labels; more than any limit if it is not there."""
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else float("inf")


def lag_p99_ms(before: str, after: str) -> float:
    """Return within which bound 99 % of the event loop's timers fired between two looks."""
    old = {bound: float(count) for bound, count in _LAG.findall(before)}
    counts = [(float(b), float(count) - old.get(b, 0)) for b, count in _LAG.findall(after)]
    total = counts[-1][1] if counts else 0.0
    for bound, count in counts:
        if total and count >= 0.99 * total:
            return bound * 1000
    return float("inf")
