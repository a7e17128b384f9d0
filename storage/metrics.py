"""What the storage tier counts; exported by the broker's /metrics."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from storage.objects.store_health import StoreState
from storage.objects.store_traffic import StoreTraffic
from storage.plain_metrics import Count, Counts, Distribution, Distributions

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BYTES: Final = (1e3, 1e4, 1e5, 5e5, 1e6, 2e6, 4e6, 8e6, 16e6, 64e6)


class StorageMetrics:
    """Counters and histograms of one broker, in its own registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"streamhouse_{name}", text, registry=registry)

        def plain(name: str, text: str) -> Count:
            return Counts(f"streamhouse_{name}", text, registry).of()

        def histogram(name: str, text: str, bounds: tuple[float, ...] = SECONDS) -> Distribution:
            return Distributions(f"streamhouse_{name}", text, registry, bounds=bounds).of()

        self.put_seconds = histogram("object_put_seconds", "Time of one successful PUT.")
        self.put_failures = counter("object_put_failures", "PUTs given up and begun again.")
        self.object_bytes = histogram("object_bytes", "Size of sealed objects.", BYTES)
        self.commit_seconds = histogram("commit_seconds", "Time of one commit in Postgres.")
        self.commit_failures = counter("commit_failures", "Commits repeated for want of an answer.")
        self.records_committed = plain("records_committed", "Records appended to the log.")
        self.bytes_committed = plain("bytes_committed", "Bytes appended to the log.")
        self.get_seconds = histogram("object_get_seconds", "Time of one ranged GET.")
        self.get_bytes = plain("object_get_bytes", "Bytes read from the object store.")
        reads = Counts(
            "streamhouse_partition_reads", "Reads that returned records.", registry, label="source"
        )
        self.reads_from_tail = reads.of("tail")
        self.reads_from_store = reads.of("store")


class StoreCollector(Collector):
    """How the object store is doing, and what was done about it."""

    def __init__(self, traffic: StoreTraffic) -> None:
        self._traffic = traffic

    def collect(self) -> Iterator[Metric]:
        state = self._traffic.health.state
        health = GaugeMetricFamily(
            "streamhouse_store_health", "1 for the object store's present state.", labels=("state",)
        )
        for one in StoreState:
            health.add_metric((one,), one is state)
        yield health
        throttled = CounterMetricFamily(
            "streamhouse_store_throttled",
            "Requests that the object store refused for their rate.",
            labels=("kind",),
        )
        places = GaugeMetricFamily(
            "streamhouse_store_places",
            "Requests that may be under way at a time.",
            labels=("kind",),
        )
        for kind, limit in (("read", self._traffic.gets), ("write", self._traffic.puts)):
            throttled.add_metric((kind,), limit.throttled)
            places.add_metric((kind,), limit.limit)
        yield throttled
        yield places
        hedges = self._traffic.hedges
        yield CounterMetricFamily(
            "streamhouse_hedged_gets", "GETs that were sent a second time.", hedges.hedged
        )
        yield CounterMetricFamily(
            "streamhouse_hedged_gets_won", "Second GETs that answered first.", hedges.won
        )
