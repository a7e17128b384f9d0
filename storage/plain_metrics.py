"""Counters and histograms for what happens with every request.

The library's own take a lock and some calls of Python for each number, which would be a tenth of
what a Produce costs. These are plain numbers of the event loop: nothing else may change them. What
they export is the same.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

_as_text: Callable[[float], str] = floatToGoString


class Count:
    """A number that only grows; to be added to at once where a call would cost too much."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        """Add to it."""
        self.value += amount


class Distribution:
    """How many values there were up to each of `bounds`, which ascend, and beyond the last."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Take note of a value."""
        self.total += value
        self.counts[bisect_left(self.bounds, value)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """Return upper bound as text, and how many values are not above it."""
        found: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            so_far += count
            found.append((_as_text(bound), so_far))
        return found


class Counts(Collector):
    """Exports a Count for each value of one label, or one without a label."""

    def __init__(
        self, name: str, text: str, registry: CollectorRegistry, *, label: str = ""
    ) -> None:
        self._name, self._text, self._label = name, text, label
        self._created_s = time.time()
        self._counts: dict[str, Count] = {}
        registry.register(self)

    def of(self, value: str = "") -> Count:
        """Return the count of a label's value, from 0 on."""
        return self._counts.setdefault(value, Count())

    def describe(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._text)

    def collect(self) -> Iterator[Metric]:
        labels = (self._label,) if self._label else ()
        family = CounterMetricFamily(self._name, self._text, labels=labels)
        for value, count in self._counts.items():
            family.add_metric([value] if labels else [], count.value, created=self._created_s)
        yield family


class Distributions(Collector):
    """Exports a Distribution for each value of one label, or one without a label."""

    def __init__(
        self,
        name: str,
        text: str,
        registry: CollectorRegistry,
        *,
        bounds: Sequence[float],
        label: str = "",
    ) -> None:
        self._name, self._text, self._label = name, text, label
        self._bounds = bounds
        self._created_s = time.time()
        self._distributions: dict[str, Distribution] = {}
        registry.register(self)

    def of(self, value: str = "") -> Distribution:
        """Return the distribution of a label's value, empty at first."""
        return self._distributions.setdefault(value, Distribution(self._bounds))

    def describe(self) -> Iterator[Metric]:
        yield HistogramMetricFamily(self._name, self._text)

    def collect(self) -> Iterator[Metric]:
        names = (self._label,) if self._label else ()
        family = HistogramMetricFamily(self._name, self._text, labels=names)
        for value, one in self._distributions.items():
            family.add_metric([value] if names else [], one.buckets(), one.total)
            labels = {self._label: value} if names else {}
            family.add_sample(f"{self._name}_created", labels, self._created_s)
        yield family
