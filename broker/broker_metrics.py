"""What a broker counts of connections, requests and its event loop, for GET /metrics.

Others count beside what they do, in modules of the same name; docs/operations.md has all of it.
"""

from bisect import bisect_left
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from storage.metrics import SECONDS
from storage.plain_metrics import Counts, Distributions


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
