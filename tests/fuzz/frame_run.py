"""Very many frames through the code of a connection, in several processes, from one seed."""

import gc
import math
import multiprocessing
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.managers import SyncManager
from random import Random
from typing import Final

import psutil

from broker.memory_return import find_trim
from tests.fuzz.frames import advertised, frame_of, some_frame
from tests.fuzz.judge import Judge, Tally
from tests.fuzz.measures import Meter, Worst
from tests.fuzz.sasl_looks import token_check

MAX_FINDINGS: Final = 100
RSS_GROWTH_BYTES: Final = 256 * 1024 * 1024
FRAMES_OF_A_PROCESS: Final = 200_000
MEASURED_FROM_BYTES: Final = 1024
"""Smaller frames cannot take a megabyte, unless they hold what is compressed: a sample of them."""

PROGRESS_S: Final = 10
LOOK_UP_FRAMES: Final = 1_000
IGNORE_INTERRUPT: Final = (signal.SIGINT, signal.SIG_IGN)


@dataclass(slots=True, kw_only=True)
class FrameRun:
    """What a run, or the share of one process, has seen.

    Attributes:
        measured: frames whose memory was measured.
        rss_growth: bytes that the process grew and kept, native memory included.
        findings: whatever should not have happened.
    """

    frames: int = 0
    decoded: int = 0
    measured: int = 0
    seconds: float = 0.0
    rss_growth: int = 0
    findings: list[str] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)
    ratio: Worst = field(default_factory=Worst)
    peak: Worst = field(default_factory=Worst)
    pace: Worst = field(default_factory=Worst)
    longest: Worst = field(default_factory=Worst)

    def add(self, other: "FrameRun") -> None:
        """Take what another process has seen."""
        self.frames += other.frames
        self.decoded += other.decoded
        self.measured += other.measured
        self.rss_growth = max(self.rss_growth, other.rss_growth)
        self.findings += other.findings
        for name, tally in other.tallies.items():
            self.tallies.setdefault(name, Tally()).add(tally)
        for name in ("ratio", "peak", "pace", "longest"):
            theirs: Worst = getattr(other, name)
            getattr(self, name).note(theirs.value, theirs.what)


def run_frames(count: int, seed: int, *, processes: int = 1, measure_every: int = 1) -> FrameRun:
    """Send `count` frames, or until Ctrl-C; each process has a seed that follows from `seed`.

    Several processes at a time are each replaced after FRAMES_OF_A_PROCESS: what measures memory
    leaks a kilobyte each time it begins and ends, and would be found itself.

    Args:
        count: of all processes together.
        seed: the same one sends the same frames to the same code.
        processes: that share the work.
        measure_every: of how many small frames the memory of one is measured, at random.
    """
    if processes == 1:
        with _interrupt_sets(threading.Event()) as enough:
            return _share(count, seed, measure_every, enough)
    total, context, began_s = FrameRun(), multiprocessing.get_context("spawn"), time.monotonic()
    manager = SyncManager(ctx=context)
    manager.start(signal.signal, IGNORE_INTERRUPT)
    most = min(FRAMES_OF_A_PROCESS, math.ceil(count / processes))
    with (
        manager,
        _interrupt_sets(manager.Event()) as enough,
        ThreadPoolExecutor(processes) as threads,
    ):

        def share(at: int) -> FrameRun:
            if enough.is_set():
                return FrameRun()
            frames = min(most, count - at * most)
            with context.Pool(1, signal.signal, IGNORE_INTERRUPT) as process:
                return process.apply(_share, (frames, seed * 1000 + at, measure_every, enough))

        for seen in threads.map(share, range(math.ceil(count / most))):
            total.add(seen)
    total.seconds = time.monotonic() - began_s
    return total


@contextmanager
def _interrupt_sets(enough: threading.Event) -> Iterator[threading.Event]:
    """Let Ctrl-C end a run, which then tells what it has seen; processes below it ignore that."""
    before = signal.signal(signal.SIGINT, lambda *_: enough.set())
    try:
        yield enough
    finally:
        signal.signal(signal.SIGINT, before)


def _share(count: int, seed: int, measure_every: int, enough: threading.Event) -> FrameRun:
    warm_up()
    random, meter = Random(seed), Meter(measures_memory=False)
    judge, run = Judge(meter), FrameRun()
    rss_bytes, began_s = _settled_rss(), time.monotonic()
    told_s = began_s
    while run.frames < count and len(judge.findings) < MAX_FINDINGS:
        sent = some_frame(random)
        ends = sorted(
            int(random.random() * len(sent.data)) for _ in range(int(random.random() * 3))
        )
        sampled = random.random() * measure_every < 1
        meter.measures_memory = sampled or len(sent.data) >= MEASURED_FROM_BYTES
        if meter.measures_memory:
            tracemalloc.start(1)
        found = len(judge.findings)
        run.decoded += judge.send(sent.data, ends, api_key=sent.api_key, version=sent.version)
        if meter.measures_memory:
            tracemalloc.stop()
            run.measured += 1
        if len(judge.findings) > found:
            _say(f"seed {seed}: {judge.findings[-1][:600]}")
        run.frames += 1
        if run.frames % LOOK_UP_FRAMES:
            continue
        if enough.is_set():
            break
        if time.monotonic() - told_s > PROGRESS_S:
            told_s = time.monotonic()
            pace = run.frames / (told_s - began_s)
            share = run.decoded / run.frames
            _say(f"seed {seed}: {run.frames} frames, {pace:.0f}/s, {share:.0%} decoded")
    run.seconds = time.monotonic() - began_s
    run.rss_growth = _settled_rss() - rss_bytes
    run.findings, run.tallies = judge.findings, judge.tallies
    run.ratio, run.peak, run.pace, run.longest = meter.ratio, meter.peak, meter.pace, meter.longest
    if run.rss_growth > RSS_GROWTH_BYTES:
        run.findings.append(f"seed {seed}: the process grew by {run.rss_growth} bytes")
    return run


def warm_up() -> None:
    """Compile every schema and make the pools, which nobody is to be charged for."""
    random, judge = Random(0), Judge(Meter(measures_memory=False))
    token_check()
    for api_key, version in sorted(set(advertised())):
        for clean in (True, True, False):
            sent = frame_of(random, api_key, version, clean=clean)
            judge.send(sent.data, api_key=api_key, version=version)
    gc.collect()
    gc.freeze()


def _settled_rss() -> int:
    """Return the memory that stays: as the broker does, what is free is given back first."""
    gc.collect()
    trim = find_trim()
    if trim is not None:
        trim(0)
    return psutil.Process().memory_info().rss


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
