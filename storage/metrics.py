"""What the storage tier counts; exported by the broker's /metrics."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BYTES: Final = (1e3, 1e4, 1e5, 5e5, 1e6, 2e6, 4e6, 8e6, 16e6, 64e6)


class StorageMetrics:
    """Counters and histograms of one broker, in its own registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"streamhouse_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
            return Histogram(f"streamhouse_{name}", text, registry=registry, buckets=buckets)

        self.put_seconds = histogram("object_put_seconds", "Time of one successful PUT.")
        self.put_failures = counter("object_put_failures", "PUTs given up and begun again.")
        self.object_bytes = histogram("object_bytes", "Size of sealed objects.", BYTES)
        self.commit_seconds = histogram("commit_seconds", "Time of one commit in Postgres.")
        self.commit_failures = counter("commit_failures", "Commits repeated for want of an answer.")
        self.records_committed = counter("records_committed", "Records appended to the log.")
        self.bytes_committed = counter("bytes_committed", "Bytes appended to the log.")
        self.get_seconds = histogram("object_get_seconds", "Time of one ranged GET.")
        self.get_bytes = counter("object_get_bytes", "Bytes read from the object store.")
        self.reads = counter("partition_reads", "Reads that returned records.", "source")
        self.reads_from_tail = self.reads.labels("tail")
        self.reads_from_store = self.reads.labels("store")
