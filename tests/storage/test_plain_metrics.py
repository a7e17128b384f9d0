"""Plain counters and histograms export what the library's own do."""

import re

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from storage.metrics import BYTES, SECONDS
from storage.plain_metrics import Counts, Distributions


def exported(registry: CollectorRegistry) -> str:
    """Return what /metrics shows, without the times of creation."""
    return re.sub(r"(_created\S*) \S+", r"\1", generate_latest(registry).decode())


@given(values=st.lists(st.one_of(st.sampled_from(SECONDS), st.floats(0, 100))))
def test_they_export_what_the_library_would(values: list[float]) -> None:
    # Given the same metrics of both kinds
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    seconds = Distributions("took_seconds", "Time.", ours, bounds=SECONDS, label="api").of("fetch")
    sizes = Distributions("object_bytes", "Size.", ours, bounds=BYTES).of()
    count = Counts("records", "Records.", ours).of()
    their_seconds = Histogram("took_seconds", "Time.", ("api",), registry=theirs, buckets=SECONDS)
    their_sizes = Histogram("object_bytes", "Size.", registry=theirs, buckets=BYTES)
    their_count = Counter("records", "Records.", registry=theirs)

    # When they take the same values
    their_seconds.labels("fetch")
    for value in values:
        seconds.observe(value)
        their_seconds.labels("fetch").observe(value)
        sizes.observe(value * 1e6)
        their_sizes.observe(value * 1e6)
        count.inc(value)
        their_count.inc(value)

    # Then they show the same
    assert exported(ours) == exported(theirs)
