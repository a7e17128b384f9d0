"""Rounds: in each, every contender runs alone and does all its cases; they take turns to begin.

So do the cases of which it makes no difference where they come: what a JIT has not compiled yet,
and what a broker does later of what was written before, would else always meet the same ones.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

import psutil

from bench.cluster import Cluster
from bench.results import Figures
from bench.versus.clients import kcat_consume, kcat_produce, run_clients
from bench.versus.contenders import Contender
from bench.versus.part import Case, Scale
from bench.versus.payload import MB, payload
from bench.versus.ratios import Value
from bench.versus.running import Running, cpu_seconds

WARM_MB: Final = 64
WARM_QUICK_MB: Final = 4
WARM_BYTES: Final = 1_024
WARM_PARTITIONS: Final = 6
SAID_CHARACTERS: Final = 600

Say = Callable[[str, int], None]
"""What is being done, and how many cases are over."""


def order(names: Sequence[str], number: int) -> list[str]:
    """Return who runs in which order in a round: every other one is the other way round."""
    return list(names) if number % 2 else list(reversed(names))


def turned(cases: Sequence[Case], number: int, repeat: int) -> list[Case]:
    """Return the cases of a round; where they may come anywhere, each round begins elsewhere."""
    made: list[Case] = []
    for anywhere, group in groupby(cases, attrgetter("anywhere")):
        its = list(group)
        first = (number - 1) * len(its) // repeat if anywhere else 0
        made += its[first:] + its[:first]
    return made


def amount(cases: Sequence[Case], names: Sequence[str]) -> int:
    """Return how many cases a round has, each for each contender."""
    return sum(1 for case in cases for name in names if name in case.contenders)


def run_rounds(
    cases: Sequence[Case],
    contenders: Mapping[str, Contender],
    repeat: int,
    scale: Scale,
    *,
    values: list[Value],
    say: Say,
) -> None:
    """Run everything; what is measured is added to `values` at once, for who is interrupted.

    A contender that does not start, or a case that fails, leaves notes in place of figures.
    """
    for number in range(1, repeat + 1):
        for name in order(list(contenders), number):
            its = [case for case in turned(cases, number, repeat) if name in case.contenders]
            if its:
                _run_one(contenders[name], its, number, scale, values, say)


def _run_one(
    contender: Contender,
    cases: Sequence[Case],
    number: int,
    scale: Scale,
    values: list[Value],
    say: Say,
) -> None:
    left = list(cases)
    where = f"round {number}, {contender.name}"
    try:
        with home_of_a_round(scale.scratch) as home, ExitStack() as stack:
            say(f"{where}: starts", len(values))
            running = stack.enter_context(contender.running(home))
            _warm(running, scale)
            while left:
                case = left.pop(0)
                say(f"{where}, {case.part}: {case.name}", len(values))
                values.append(_measured(case, running, number))
    except Exception as error:  # noqa: BLE001 (the other rounds are worth having)
        _raise_if_interrupted(error)
        say(f"{where}: {_said(error)}", len(values))
        values += [_value(case, contender.name, number, note=_said(error)) for case in left]


@contextmanager
def home_of_a_round(scratch: Path) -> Iterator[Path]:
    """Give an empty directory; its files are emptied afterwards, and go with all of the run.

    ext4 without a journal, which virtual machines have, passes over inodes that were deleted within
    minutes, one by one, for each file that it makes: a broker that makes many would pay for who was
    there before.
    """
    home = Path(tempfile.mkdtemp(prefix="run-", dir=scratch))
    try:
        yield home
    finally:
        for file in home.rglob("*"):
            if file.is_file() and not file.is_symlink():
                os.truncate(file, 0)


def _measured(case: Case, running: Running, number: int) -> Value:
    began_s, others_s = time.monotonic(), _others_cpu_s()
    try:
        figures, note = case.measure(running), ""
    except Exception as error:  # noqa: BLE001 (half an hour of other cases is worth having)
        _raise_if_interrupted(error)
        figures, note = {}, _said(error)
    took_s = time.monotonic() - began_s
    cores = max(_others_cpu_s() - others_s, 0.0) / took_s
    return _value(
        case, running.name, number, figures=figures, note=note, took_s=took_s, others_cores=cores
    )


def _raise_if_interrupted(error: BaseException) -> None:
    """Raise KeyboardInterrupt if that is why something failed: what it ended fails in its turn."""
    why: BaseException | None = error
    while why is not None:
        if isinstance(why, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        why = why.__context__


def _value(
    case: Case,
    contender: str,
    number: int,
    *,
    figures: Figures | None = None,
    note: str = "",
    took_s: float = 0.0,
    others_cores: float = 0.0,
) -> Value:
    return Value(
        number=number,
        contender=contender,
        part=case.part,
        case=case.name,
        figures=figures or {},
        took_s=took_s,
        others_cores=others_cores,
        note=note,
    )


def _warm(running: Running, scale: Scale) -> None:
    """Write and read a little, and wait until what works in the background has begun to."""
    sent = payload(scale.scratch, WARM_BYTES, scale.pick(WARM_MB, WARM_QUICK_MB) * MB)
    topic = Cluster(running.bootstrap).new_topic(WARM_PARTITIONS)
    run_clients([kcat_produce(running.bootstrap, topic, sent.file, sent.records, {})])
    run_clients([kcat_consume(running.bootstrap, topic, sent.records)])
    running.broker.wait_for_upkeep()


def _others_cpu_s() -> float:
    """Return CPU seconds of the machine that no process of this run has used."""
    machine = psutil.cpu_times()
    this = psutil.Process()
    of_run = cpu_seconds({this, *this.children(recursive=True)})
    used: float = machine.user + machine.nice + machine.system + machine.irq + machine.softirq
    return used + machine.steal - of_run


def _said(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}".strip()
    return text if len(text) <= SAID_CHARACTERS else f"{text[:SAID_CHARACTERS]}…"
