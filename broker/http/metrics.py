"""What the broker counts; GET /metrics exports it, and the storage tier's (docs/operations.md)."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from broker.http.exposition import Family, label_text
from storage.metrics import SECONDS
from storage.partition_log import PartitionLog
from storage.plain_metrics import Counts, Distributions

_PARTITION_OFFSETS: Final = {
    "log_start_offset": "First offset that can be read.",
    "high_watermark": "One past the last committed record.",
    "last_stable_offset": "Before it every transaction has ended.",
    "log_end_offset": "High watermark plus records in the write buffer.",
}
"""What is exported of a PartitionLog, by the name of its attribute."""


class BrokerMetrics:
    """Counters and histograms of one broker, in its own registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.connections = Gauge(
            "streamhouse_connections",
            "Open client connections.",
            ("listener",),
            registry=registry,
        )
        self.refused_connections = Counter(
            "streamhouse_refused_connections",
            "Connections closed against their peers' will.",
            ("reason",),
            registry=registry,
        )
        self.failed_handshakes = Counter(
            "streamhouse_failed_tls_handshakes",
            "TLS handshakes that came to nothing.",
            ("reason",),
            registry=registry,
        )
        self._request_seconds = Distributions(
            "streamhouse_request_seconds",
            "Time from a request's start to its answer.",
            registry,
            bounds=SECONDS,
            label="api",
        )
        self._request_bytes = Counts(
            "streamhouse_request_bytes", "Bytes of requests.", registry, label="api"
        )
        self._errors = Counter(
            "streamhouse_errors", "Error codes answered.", ("api", "error"), registry=registry
        )
        self._request_memory = Gauge(
            "streamhouse_request_memory_bytes",
            "Bytes of requests that are not answered yet.",
            registry=registry,
        )
        self.loop_lag_seconds = Histogram(
            "streamhouse_event_loop_lag_seconds",
            "How late a timer of the event loop fires.",
            registry=registry,
            buckets=SECONDS,
        )

    def watch_memory(self, used_bytes: Callable[[], float]) -> None:
        """Export how much of queued.max.request.bytes is held."""
        self._request_memory.set_function(used_bytes)

    def observer(self, api: str) -> Callable[[int, float], None]:
        """Return what takes note of one answered request: its bytes and its seconds."""
        seconds, size = self._request_seconds.of(api), self._request_bytes.of(api)
        bounds, counts = seconds.bounds, seconds.counts

        def observe(request_bytes: int, took_s: float) -> None:
            size.value += request_bytes
            seconds.total += took_s  # as its observe() does, without the call
            counts[bisect_left(bounds, took_s)] += 1

        return observe

    def error(self, api: str, error: str, count: int = 1) -> None:
        self._errors.labels(api, error).inc(count)


class PartitionSeries:
    """Offsets of the partitions that this broker has worked with since its start."""

    def __init__(
        self, logs: Callable[[], Iterable[PartitionLog]], name_of: Callable[[UUID], str]
    ) -> None:
        self._logs = logs
        self._name_of = name_of

    async def families(self) -> list[Family]:
        """Return them; the offsets are looked at when their lines are made."""
        logs = list(self._logs())
        return [
            Family(
                name=f"streamhouse_partition_{name}", text=text, samples=self._samples(logs, name)
            )
            for name, text in _PARTITION_OFFSETS.items()
        ]

    def _samples(self, logs: Iterable[PartitionLog], name: str) -> Iterator[tuple[str, float]]:
        for one in logs:
            topic = self._name_of(one.partition.topic_id)
            if topic and one.is_known:
                labels = label_text(topic=topic, partition=str(one.partition.index))
                yield labels, getattr(one, name)


class GroupMetrics:
    """What happens to consumer groups."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rebalances = Counter(
            "streamhouse_group_rebalances",
            "New generations (group epochs) of groups coordinated here.",
            registry=registry,
        )
        self.offset_commits = Counter(
            "streamhouse_group_offset_commits",
            "Offset commits accepted for writing.",
            registry=registry,
        )
        self.writes = Counter(
            "streamhouse_group_writes",
            "Statements that wrote groups and committed offsets.",
            registry=registry,
        )
        self.fenced_groups = Counter(
            "streamhouse_group_fenced",
            "Writes of groups that another broker had taken.",
            registry=registry,
        )


class TransactionMetrics:
    """How transactions end; a first answer that is repeated counts again."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended = Counter(
            "streamhouse_transactions_ended",
            "Transactions ended by this broker.",
            ("result",),
            registry=registry,
        )
        for result in ("committed", "aborted"):
            self._ended.labels(result)  # a rate needs a 0 to begin from
        self._overdue = Counter(
            "streamhouse_transactions_overdue",
            "Transactions aborted by this broker because they were past their timeout.",
            registry=registry,
        )

    def ended(self, *, committed: bool, overdue: bool) -> None:
        """Take note of one."""
        self._ended.labels("committed" if committed else "aborted").inc()
        if overdue:
            self._overdue.inc()


class GroupCollector(Collector):
    """Groups in this broker's memory, by their state."""

    def __init__(self, states: Callable[[], Mapping[str, int]]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        loaded = GaugeMetricFamily(
            "streamhouse_group_loaded", "Groups in memory.", labels=("state",)
        )
        for state, count in sorted(self._states().items()):
            loaded.add_metric((state,), count)
        return iter((loaded,))
