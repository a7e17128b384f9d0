"""What a broker counts of groups, for GET /metrics."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


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
