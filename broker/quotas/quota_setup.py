"""Makes what keeps quotas."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from broker.configs.dynamic_broker_config import DynamicBrokerConfig
from broker.configs.entity_configs import EntityConfigs
from broker.quotas.quota_connections import ConnectionRates
from broker.quotas.quota_metrics import QuotaMetrics
from broker.quotas.quota_table import QuotaTable
from broker.quotas.quotas import Quotas, QuotaWindows


def make_quotas(
    entity_configs: EntityConfigs,
    config: DynamicBrokerConfig,
    registry: CollectorRegistry,
    clock: Callable[[], float],
) -> tuple[Quotas, ConnectionRates]:
    """Return the quotas of clients, and those of new connections."""
    metrics, start = QuotaMetrics(registry), config.current
    table = QuotaTable(entity_configs)
    windows = QuotaWindows(
        samples=start.quota_window_num,
        sample_s=start.quota_window_size_seconds,
        mutation_samples=start.controller_quota_window_num,
        mutation_sample_s=start.controller_quota_window_size_seconds,
    )
    rates = ConnectionRates(
        table,
        limit=lambda: config.current.max_connection_creation_rate,
        burst_s=windows.burst_s,
        longest_s=windows.sample_s,
        metrics=metrics,
        clock=clock,
    )
    return Quotas(table, windows=windows, metrics=metrics, clock=clock), rates
