"""Counters and gauges of streaming queries, fed with what Spark says of each batch."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BATCH_SECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_MS_PER_S: Final = 1000


class QueryMetrics:
    """Metrics of all queries of a session, in a registry; names begin with streamhouse_spark_."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"streamhouse_spark_{name}", text, ("query", *labels), registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"streamhouse_spark_{name}", text, ("query", *labels), registry=registry)

        self._running = gauge("query_running", "1 while a query runs.")
        self._ended = counter("queries_ended", "Queries that ended: failed, or stopped.", "outcome")
        self._batches = counter("batches", "Batches committed.")
        self._batch_id = gauge("batch_id", "Id of the last batch.")
        self._batch_time = gauge("batch_timestamp_seconds", "When the last batch began.")
        self._input = counter("input_rows", "Rows read.")
        self._output = counter("output_rows", "Rows written, where the sink counts them.")
        self._phases = counter("phase_seconds", "Time of batches by what it went into.", "phase")
        self._behind = gauge("records_behind", "Records after the last batch's.", "topic")
        self._watermark = gauge("watermark_timestamp_seconds", "Earlier event times are late.")
        self._late = counter("late_rows", "Rows dropped by the watermark.", "operator")
        self._state_rows = gauge("state_rows", "Rows in state stores.", "operator")
        self._state_bytes = gauge("state_memory_bytes", "Memory of state stores.", "operator")
        self._seconds = Histogram(
            "streamhouse_spark_batch_seconds",
            "Time of batches.",
            ("query",),
            registry=registry,
            buckets=_BATCH_SECONDS,
        )

    def started(self, name: str) -> None:
        """Take note that a query runs."""
        self._running.labels(name).set(1)

    def ended(self, name: str, *, failed: bool) -> None:
        """Take note that a query is over."""
        self._running.labels(name).set(0)
        self._ended.labels(name, "failed" if failed else "stopped").inc()

    def progressed(self, progress: Mapping[str, Any]) -> None:
        """Add a trigger's progress, as Spark's StreamingQueryProgress has it in JSON."""
        name = progress.get("name") or progress["id"]
        phases = {phase: ms / _MS_PER_S for phase, ms in progress["durationMs"].items()}
        if "addBatch" in phases:  # else it was a look for new records, and there were none
            self._batches.labels(name).inc()
            self._seconds.labels(name).observe(progress["batchDuration"] / _MS_PER_S)
        for phase, seconds in phases.items():
            if phase != "triggerExecution":  # all others together
                self._phases.labels(name, phase).inc(seconds)
        self._batch_id.labels(name).set(progress["batchId"])
        self._batch_time.labels(name).set(_seconds(progress["timestamp"]))
        self._input.labels(name).inc(progress["numInputRows"])
        self._output.labels(name).inc(max(progress["sink"].get("numOutputRows", 0), 0))
        if watermark := progress.get("eventTime", {}).get("watermark"):
            self._watermark.labels(name).set(_seconds(watermark))
        for topic, count in records_behind(progress).items():
            self._behind.labels(name, topic).set(count)
        for number, operator in enumerate(progress["stateOperators"]):
            self._add_state(name, f"{number} {operator['operatorName']}", operator)

    def _add_state(self, query: str, operator: str, state: Mapping[str, Any]) -> None:
        self._state_rows.labels(query, operator).set(state["numRowsTotal"])
        self._state_bytes.labels(query, operator).set(state["memoryUsedBytes"])
        self._late.labels(query, operator).inc(state["numRowsDroppedByWatermark"])


def records_behind(progress: Mapping[str, Any]) -> dict[str, int]:
    """Return how many offsets of each topic lie behind a batch; only of sources that know it."""
    behind: dict[str, int] = {}
    for source in progress["sources"]:
        latest = _positions(source.get("latestOffset"))
        ends = _positions(source.get("endOffset"))
        for topic, partitions in latest.items():
            for partition, position in partitions.items():
                end = ends.get(topic, {}).get(partition, position)
                behind[topic] = behind.get(topic, 0) + max(position - end, 0)
    return behind


def _positions(offset: object) -> Mapping[str, Mapping[str, int]]:
    """Return topic -> partition -> offset of what a source calls its offset; {} of other sources'.

    Spark's Kafka source has it so. Of ours, which has it under "offsets", Spark tells the end of a
    batch as the latest offset: what lies behind is not known. JSON comes as text or parsed.
    """
    document = json.loads(offset) if isinstance(offset, str) else offset
    if not isinstance(document, dict) or "offsets" in document:
        return {}
    return {topic: each for topic, each in document.items() if isinstance(each, dict)}


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
