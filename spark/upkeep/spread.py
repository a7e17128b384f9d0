"""Items of work over Spark's tasks, and how far they have come.

A task has a few items, and there are more tasks than cores: what takes long is made up for, and a
task that is tried again does little again. Work must bear being done twice, and being cut off.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

TASKS_PER_CORE: Final = 4
GLANCE_S: Final = 0.2

_REASON: Final = re.compile(r"^([\w.]+\.)?([A-Z]\w+): (.+)$", re.MULTILINE)

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Iterable[Item]], Iterator[Result]]
Tell = Callable[[int, int], None]
"""Is told how many tasks are done, and how many there are."""


class WorkFailed(Exception):
    """A task failed as often as Spark tries it; the message is the last failure's."""


def deal(items: Sequence[Item], hands: int) -> list[list[Item]]:
    """Return items in as many hands, the first items in different ones; none is empty."""
    return [list(items[hand::hands]) for hand in range(min(hands, len(items)))]


def spread(
    session: SparkSession,
    items: Sequence[Item],
    work: Work[Item, Result],
    *,
    name: str,
    tell: Tell,
) -> list[Result]:
    """Do all items on executors; return the results of all, in no order.

    Args:
        session: where.
        items: picklable; the largest first.
        work: picklable; is given the items of a task.
        name: of the Spark job, for its pages.
        tell: is called now and then by this thread.

    Raises:
        WorkFailed: a task failed as often as Spark tries it (spark.task.maxFailures; local[N] tries
            once, local[N,4] four times). What is done is done.
    """
    if not items:
        return []
    context = session.sparkContext
    hands = deal(items, context.defaultParallelism * TASKS_PER_CORE)
    running = _Running(context, hands, work, name)
    try:
        while not running.wait(GLANCE_S):
            tell(running.done(), len(hands))
    except BaseException:
        context.cancelJobGroup(running.group)
        raise
    results = running.results()
    tell(len(hands), len(hands))
    return results


class _Running(Generic[Item, Result]):
    """A Spark job in a thread of its own, so that another one can look at it."""

    def __init__(
        self,
        context: SparkContext,
        hands: list[list[Item]],
        work: Work[Item, Result],
        name: str,
    ) -> None:
        self.group = f"upkeep-{uuid4()}"
        self._context = context
        self._hands = hands
        self._work = work
        self._name = name
        self._ended = threading.Event()
        self._results: list[Result] = []
        self._failure: BaseException | None = None
        self._thread = InheritableThread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self.group, self._name, interruptOnCancel=True)
            dealt = self._context.parallelize(self._hands, len(self._hands))
            self._results = dealt.flatMap(self._work).collect()
        except BaseException as failure:  # noqa: BLE001 (the thread that waits raises it)
            self._failure = failure
        finally:
            self._ended.set()

    def wait(self, timeout_s: float) -> bool:
        """Return whether it has ended."""
        return self._ended.wait(timeout_s)

    def done(self) -> int:
        """Return how many tasks have ended well."""
        tracker = self._context.statusTracker()
        done = 0
        for job_id in tracker.getJobIdsForGroup(self.group):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job else ():
                stage = tracker.getStageInfo(stage_id)
                done += stage.numCompletedTasks if stage else 0
        return done

    def results(self) -> list[Result]:
        """Return what it has come to.

        Raises:
            WorkFailed: see `spread`.
        """
        self._thread.join()
        if isinstance(self._failure, Py4JJavaError):
            raise WorkFailed(f"{self._name}: {_reason(self._failure)}") from self._failure
        if self._failure is not None:
            raise self._failure
        return self._results


def _reason(failure: Py4JJavaError) -> str:
    """Return the last exception of a Python worker that Spark tells of, without its traceback."""
    text = str(failure.java_exception.getMessage())
    head = text.partition("\nDriver stacktrace:")[0]
    found = [f"{name}: {message}" for package, name, message in _REASON.findall(head) if package]
    ours = [one for one in found if not one.startswith(("PythonException", "SparkException"))]
    return ours[-1] if ours else head.splitlines()[0]
