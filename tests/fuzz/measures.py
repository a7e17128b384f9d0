"""What a frame may cost, and what it cost: memory by tracemalloc, time by the thread's clock."""

import contextlib
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

T = TypeVar("T")

MEMORY_FACTOR: Final = 8
MEMORY_BASE_BYTES: Final = 1024 * 1024
DECOMPRESSED_FACTOR: Final = 2
"""What a codec writes comes in pieces, which are joined."""

TIME_BASE_NS: Final = 50_000_000
TIME_NS_PER_BYTE: Final = 4_000
REPETITIONS: Final = 3

RATIO_FROM_BYTES: Final = 4096
"""Of frames at least this large the ratio of memory to size says something."""


@dataclass(slots=True)
class Worst:
    """The worst of some measure, and whose it was."""

    value: float = 0.0
    what: str = ""

    def note(self, value: float, what: str) -> None:
        if value > self.value:
            self.value, self.what = value, what


@dataclass(slots=True)
class Meter:
    """Measures work, and says what was over its budget.

    Attributes:
        over: what was, in words.
        ratio: the most memory per byte of a large frame, beyond MEMORY_BASE_BYTES; of steps that
            decompress nothing.
        peak: the most bytes of memory for one frame.
        pace: the most ns per byte, of frame and payload.
        longest: the most ns for one step.
    """

    measures_memory: bool = True
    over: list[str] = field(default_factory=list)
    ratio: Worst = field(default_factory=Worst)
    peak: Worst = field(default_factory=Worst)
    pace: Worst = field(default_factory=Worst)
    longest: Worst = field(default_factory=Worst)

    def run(self, what: str, size: int, limit_bytes: int, work: Callable[[], T]) -> T:
        """Return what the work returns, or raise what it raises.

        Args:
            what: it is, for whoever reads of it.
            size: of the frame, in bytes.
            limit_bytes: of what it may decompress.
            work: to be done now.
        """
        before = 0
        if self.measures_memory:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
        began_ns = time.thread_time_ns()
        try:
            return work()
        finally:
            took_ns = time.thread_time_ns() - began_ns
            if self.measures_memory:
                peak = tracemalloc.get_traced_memory()[1] - before
                self._judge_memory(what, peak, size, limit_bytes)
            self._judge_time(what, took_ns, size + limit_bytes, work)

    def _judge_time(self, what: str, took_ns: int, size: int, work: Callable[[], object]) -> None:
        allowed_ns = TIME_BASE_NS + TIME_NS_PER_BYTE * size
        for _ in range(REPETITIONS):  # what is slow by itself is slow each time
            if took_ns <= allowed_ns:
                break
            took_ns = min(took_ns, _time_alone(work))
        self.longest.note(took_ns, what)
        if size >= RATIO_FROM_BYTES:
            self.pace.note(took_ns / size, what)
        if took_ns > allowed_ns:
            self.over.append(f"{what}: {took_ns / 1e6:.0f} ms for {size} bytes")

    def _judge_memory(self, what: str, peak: int, size: int, limit_bytes: int) -> None:
        self.peak.note(peak, what)
        if size >= RATIO_FROM_BYTES and not limit_bytes:
            self.ratio.note((peak - MEMORY_BASE_BYTES) / size, what)
        allowed = MEMORY_FACTOR * size + MEMORY_BASE_BYTES + DECOMPRESSED_FACTOR * limit_bytes
        if peak > allowed:
            self.over.append(f"{what}: {peak} bytes of memory for {size}")


def _time_alone(work: Callable[[], object]) -> int:
    """Return how long it takes while nobody counts its memory, which takes time itself."""
    was_tracing = tracemalloc.is_tracing()
    tracemalloc.stop()
    began_ns = time.thread_time_ns()
    with contextlib.suppress(Exception):  # that it raised before, and is judged by
        work()
    took_ns = time.thread_time_ns() - began_ns
    if was_tracing:
        tracemalloc.start(1)
    return took_ns
