"""What quotas cost clients, for GET /metrics.

By user and client id only of those who have violated a quota lately: as many series as there are
such clients, and at most MAX_SERIES of each metric.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from broker.quotas.quota_sensors import Sensor
from storage.metrics import SECONDS

MAX_SERIES: Final = 1000


class QuotaMetrics(Collector):
    """Throttle times and violations."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._throttle_seconds = Histogram(
            "streamhouse_throttle_seconds",
            "For how much longer connections were muted when answers went out.",
            ("api",),
            registry=registry,
            buckets=SECONDS,
        )
        self._connections = Counter(
            "streamhouse_throttled_connections",
            "Connections that came too fast: closed (ip), or served later or closed (broker).",
            ("limit",),
            registry=registry,
        )
        self._sensors: Callable[[], Iterable[Sensor]] = tuple
        registry.register(self)

    def watch(self, sensors: Callable[[], Iterable[Sensor]]) -> None:
        """Export what these tell."""
        self._sensors = sensors

    def throttled(self, api: str, wait_s: float) -> None:
        """Take note of an answer on a muted connection."""
        self._throttle_seconds.labels(api).observe(wait_s)

    def connection_throttled(self, limit: str) -> None:
        """Take note of a connection over its `limit`: "ip" or "broker"."""
        self._connections.labels(limit).inc()

    def collect(self) -> Iterator[Metric]:
        labels = ("quota", "user", "client_id")
        violations = CounterMetricFamily(
            "streamhouse_quota_violations", "Requests over a client's quota.", labels=labels
        )
        seconds = CounterMetricFamily(
            "streamhouse_quota_throttle_seconds",
            "How long clients over their quota were told to wait.",
            labels=labels,
        )
        violators = [one for one in self._sensors() if one.violations]
        violators.sort(key=lambda one: -one.violations)
        for one in violators[:MAX_SERIES]:
            values = (one.quota, one.user, one.client_id)
            violations.add_metric(values, one.violations)
            seconds.add_metric(values, one.throttled_s)
        return iter((violations, seconds))
