"""How much GET /metrics exports: the settings STREAMHOUSE_METRICS__…, in one place."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from storage.config import INT32_MAX, YEAR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """Bounds of what is exported.

    Attributes:
        cluster_interval_ms: what is exported once per cluster is asked of Postgres no more often,
            and only when it is scraped.
        cluster_max_partitions: partitions of topics, partitions of groups, and groups, that are
            exported one by one; those with the first names.
        client_max_series: series of clients' own metrics (KIP-714); more are dropped.
        client_max_series_each: the same for one client, and for one connection.
    """

    cluster_interval_ms: Annotated[int, Ge(0), Le(YEAR_MS)] = 10_000
    cluster_max_partitions: Annotated[int, Ge(0), Le(INT32_MAX)] = 100_000
    client_max_series: Annotated[int, Ge(0)] = 50_000
    client_max_series_each: Annotated[int, Ge(0)] = 2000
