"""What executors did, from Spark's status store: read when it is asked for, at no cost before.

The store is there with and without Spark's web pages.
"""

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql import SparkSession

_MS_PER_S: Final = 1000


class ExecutorMetrics(Collector):
    """Metrics of the executors of one application; names begin with streamhouse_spark_."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not ask Spark."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all executors that there are; on local masters the driver is one."""
        tasks = _counter("tasks", "Tasks that ended.", "outcome")
        task_seconds = _counter("task_seconds", "Time of tasks.")
        collection_seconds = _counter("garbage_collection_seconds", "Time of garbage collection.")
        read_bytes = _counter("input_bytes", "Bytes that tasks read from storage.")
        shuffled_bytes = _counter("shuffle_bytes", "Bytes that tasks shuffled.", "direction")
        active = _gauge("active_tasks", "Tasks that run.")
        cores = _gauge("cores", "Tasks that can run at a time.")
        memory = _gauge("storage_memory_bytes", "Memory for cached blocks.", "state")
        for one in self._executors():
            name = one.id()
            tasks.add_metric((name, "succeeded"), one.completedTasks())
            tasks.add_metric((name, "failed"), one.failedTasks())
            task_seconds.add_metric((name,), one.totalDuration() / _MS_PER_S)
            collection_seconds.add_metric((name,), one.totalGCTime() / _MS_PER_S)
            read_bytes.add_metric((name,), one.totalInputBytes())
            shuffled_bytes.add_metric((name, "read"), one.totalShuffleRead())
            shuffled_bytes.add_metric((name, "written"), one.totalShuffleWrite())
            active.add_metric((name,), one.activeTasks())
            cores.add_metric((name,), one.totalCores())
            memory.add_metric((name, "used"), one.memoryUsed())
            memory.add_metric((name, "limit"), one.maxMemory())
        yield from (tasks, task_seconds, collection_seconds, read_bytes, shuffled_bytes)
        yield from (active, cores, memory)

    def _executors(self) -> Iterator[Any]:
        """Yield Java objects: org.apache.spark.status.api.v1.ExecutorSummary."""
        executors = self._context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001
        for at in range(executors.size()):
            yield executors.apply(at)


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"streamhouse_spark_{name}", text, labels=("executor", *labels))


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"streamhouse_spark_{name}", text, labels=("executor", *labels))
