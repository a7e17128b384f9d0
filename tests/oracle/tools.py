"""Every stock tool against this broker and against Apache Kafka, and what they print compared.

    python -m tests.oracle.tools [--kafka HOST:PORT] [--ours HOST:PORT] [--only REGEX] [--show]

A broker that is not given is started, and ended again. PASS: both print the same. DIFFERS: what
differs is listed in differences.md. FAIL: it is not; or the call did not do what it is made for.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.oracle.apache_kafka import running_kafka
from tests.oracle.chapters import chosen_calls
from tests.oracle.differences import FILE, Difference, read_differences, stale, titles, unlisted
from tests.oracle.oracle_run import Compared, Side, compared
from tests.oracle.tool_runner import ToolRunner, tool_runner
from tests.support.broker import running_broker

SETTINGS: Final = ("--set", "group.initial.rebalance.delay.ms=0")
"""What our broker is told to be comparable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run came to.

    Attributes:
        lines: one for each call, and what is to be said about it.
        failures: those among them that must not be.
        took_s: seconds, for the calls alone.
    """

    lines: Sequence[str]
    failures: Sequence[str]
    took_s: float


def run_tools(
    home: Path, *, kafka: str = "", ours: str = "", only: str = "", show: bool = False
) -> Report:
    """Make all calls at both brokers, at the same time.

    Args:
        home: an empty directory, for all that is started.
        kafka, ours: HOST:PORT; empty for one of its own.
        only: a regular expression for the names of calls; empty for all.
        show: tell every differing line, listed or not.

    Raises:
        KafkaFailed, BrokerFailed, ProgramFailed: nothing could be compared.
    """
    calls = chosen_calls(only)
    word = f"r{int(time.time()) & 0xFFFFFF:06x}"
    with _started(home, kafka, ours) as (runner, addresses):
        began_s = time.monotonic()
        sides = [
            Side(runner=runner, bootstrap=bootstrap, files=_made(home / name), word=word)
            for name, bootstrap in zip(("files-kafka", "files-ours"), addresses, strict=True)
        ]
        with ThreadPoolExecutor(len(sides)) as threads:
            by_kafka, by_ours = threads.map(lambda side: side.answers(calls), sides)
        took_s = time.monotonic() - began_s
    run = [compared(*answered) for answered in zip(calls, by_kafka, by_ours, strict=True)]
    differences = read_differences(FILE.read_text())
    return _report(run, differences, whole=not only, show=show, took_s=took_s)


@contextmanager
def _started(home: Path, kafka: str, ours: str) -> Iterator[tuple[ToolRunner, Sequence[str]]]:
    """Start what is not given, all at once, for each takes seconds; yield both addresses, too."""
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        runner = threads.submit(stack.enter_context, tool_runner())
        cluster = kafka or threads.submit(stack.enter_context, running_kafka(_made(home / "kafka")))
        broker = ours or threads.submit(
            stack.enter_context, running_broker(home / "ours", *SETTINGS)
        )
        yield (
            runner.result(),
            [one if isinstance(one, str) else one.result().bootstrap for one in (cluster, broker)],
        )


def _report(
    run: Sequence[Compared],
    differences: Sequence[Difference],
    *,
    whole: bool,
    show: bool,
    took_s: float,
) -> Report:
    lines: list[str] = []
    failures: list[str] = []
    for one in run:
        problems = [*([one.misses] if one.misses else []), *unlisted(one, differences)]
        told = _told(one, differences, problems, show=show)
        lines += told
        failures += told if problems else []
    failures += stale(differences, run) if whole else []
    return Report(lines=lines, failures=failures, took_s=took_s)


def _told(
    one: Compared, differences: Sequence[Difference], problems: Sequence[str], *, show: bool
) -> list[str]:
    explained = titles(one, differences)
    status = "FAIL" if problems else "DIFFERS" if explained else "PASS"
    times = f"{one.kafka.ran.took_s:6.2f} {one.ours.ran.took_s:6.2f}"
    shown = [f"        {line}" for line in problems]
    if show:
        shown = [f"      - {line}" for line in one.only_kafka]
        shown += [f"      + {line}" for line in one.only_ours]
        shown += [f"        {one.misses}"] if one.misses else []
    return [f"{status:8}{one.call.name:45}{times}  {'; '.join(explained)}".rstrip(), *shown]


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.tools", description=__doc__)
    parser.add_argument("--kafka", default="", help="HOST:PORT of an Apache Kafka 4.3.1")
    parser.add_argument("--ours", default="", help="HOST:PORT of a broker of this project")
    parser.add_argument("--only", default="", help="a regular expression for names of calls")
    parser.add_argument("--show", action="store_true", help="tell listed differences, too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tools-oracle-") as home:
        report = run_tools(
            Path(home), kafka=given.kafka, ours=given.ours, only=given.only, show=given.show
        )
    sys.stdout.write("\n".join([f"{'':53} Kafka   ours  seconds", *report.lines, ""]))
    if report.failures:
        sys.stdout.write("\n".join(["", "FAILED:", *report.failures, ""]))
    counts = Counter(line.split()[0] for line in report.lines if not line.startswith(" "))
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    sys.stdout.write(f"{told} in {report.took_s:.1f} s\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
