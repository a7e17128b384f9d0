"""What the jobs of the upkeep share: a session, failures without a traceback, their results."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from spark.jobs.options import JobFailed, UpkeepOptions, WrongUsage
from spark.session import JavaMissing, Package, UnsupportedSpark, build_session
from spark.upkeep.output import (
    approximate_size,
    counted,
    log_warnings_to_stderr,
    note,
    print_json,
    print_table,
    progress,
)
from spark.upkeep.partition_work import Outcome, PartitionDone, PartitionOrder, PartitionWork
from spark.upkeep.spread import WorkFailed, spread
from spark.upkeep.stores import SchemaTooOld
from storage.errors import DatabaseNotSupported, StorageError


@contextmanager
def failures_named() -> Iterator[None]:
    """Turn what a job may meet into what is shown without a traceback."""
    try:
        yield
    except LookupError as error:
        raise WrongUsage(str(error)) from error
    except SchemaTooOld as error:
        raise JobFailed(str(error), fix="start a broker of this version on it first") from error
    except WorkFailed as error:
        raise JobFailed(str(error), fix="run the job again: what is done is done") from error
    except (StorageError, DatabaseNotSupported, JavaMissing, UnsupportedSpark) as error:
        raise JobFailed(str(error)) from error


@contextmanager
def job_session(
    name: str, options: UpkeepOptions, packages: Collection[Package] = ()
) -> Iterator[SparkSession]:
    """Give Spark for the length of a job; a session that the process has goes on after it.

    Raises:
        JobFailed, WrongUsage: it cannot be, or the job cannot do what it was asked.
    """
    log_warnings_to_stderr()
    is_ours = SparkSession.getActiveSession() is None
    with failures_named():
        session = build_session(
            name, master=options.master, packages=packages, location=options.location()
        )
        try:
            yield session
        finally:
            if is_ours:
                session.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionJob:
    """A job that does something to partitions.

    Attributes:
        name: of it, such as "build segments".
        verb: what is done to a partition.
        plan: tells the driver which partitions it is about.
        work: does some of them, in an executor.
        columns: what is counted, and what people see above it.
    """

    name: str
    verb: str
    plan: Callable[[PartitionOrder], Coroutine[Any, Any, list[PartitionWork]]]
    work: Callable[[PartitionOrder, Iterable[PartitionWork]], Iterator[PartitionDone]]
    columns: Mapping[str, str]

    def run(self, options: UpkeepOptions, order: PartitionOrder, *, as_json: bool) -> None:
        """Do it on executors, show how far it is, and what became of each partition.

        Raises:
            JobFailed, WrongUsage: it cannot be done, or not all of it was.
        """
        with job_session(self.name, options) as session:
            works = asyncio.run(self.plan(order))
            note(f"{counted(len(works), 'partition')} to {self.verb}")
            with progress(self.name) as tell:
                work = partial(self.work, order)
                results = spread(session, works, work, name=self.name, tell=tell)
        results = sorted(results, key=lambda each: (each.topic, each.partition))
        show_partitions(results, self.columns, as_json=as_json)


def show_partitions(
    results: Sequence[PartitionDone], columns: Mapping[str, str], *, as_json: bool
) -> None:
    """Show what became of partitions.

    Args:
        results: a line each.
        columns: what is counted, and what people see above it.
        as_json: for programs.

    Raises:
        JobFailed: some of them cannot be read or worked on, or were somebody else's all the time.
    """
    if as_json:
        print_json(_as_json(results))
    else:
        _print(results, columns)
    unreadable = [each for each in results if each.outcome is Outcome.UNREADABLE]
    failed = [each for each in results if each.outcome is Outcome.FAILED]
    busy = [each for each in results if each.outcome is Outcome.BUSY]
    if failed:
        raise JobFailed(
            f"{counted(len(failed), 'partition')} cannot be worked on, because of a bug",
            fix="the logs of the executors have its trace",
        )
    if unreadable:
        raise JobFailed(
            f"{counted(len(unreadable), 'partition')} cannot be read in part; that is as it was",
            fix="python -m spark.jobs.fsck --deep finds what is damaged, and says what to do",
        )
    if busy:
        raise JobFailed(
            f"{counted(len(busy), 'partition')} had somebody else's lease all the time",
            fix="brokers are at it, and go on; run the job again to see",
        )


def _as_json(results: Sequence[PartitionDone]) -> dict[str, Any]:
    totals: Counter[str] = Counter()
    for each in results:
        totals.update(each.counts)
    return {
        "totals": dict(totals),
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "outcome": each.outcome.value,
                **each.counts,
            }
            for each in results
        ],
    }


def _print(results: Sequence[PartitionDone], columns: Mapping[str, str]) -> None:
    def cell(each: PartitionDone, name: str) -> str:
        count = each.counts.get(name, 0)
        return approximate_size(count) if name == "size" else f"{count:,}"

    rows = [
        [
            f"{each.topic}-{each.partition}",
            each.outcome.value,
            *(cell(each, name) for name in columns),
        ]
        for each in results
    ]
    if rows:
        print_table(
            ["PARTITION", "OUTCOME", *columns.values()], rows, numbers=list(columns.values())
        )
    segments = sum(each.counts.get("segments", 0) for each in results)
    size = sum(each.counts.get("size", 0) for each in results)
    parts = counted(len(results), "partition")
    note(f"{parts}: {counted(segments, 'segment')} of {approximate_size(size)} written")
