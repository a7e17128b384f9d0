"""Wires what takes clients' own metrics (KIP-714)."""

from collections.abc import Callable
from uuid import uuid4

from prometheus_client import CollectorRegistry

from broker.configs.entity_configs import EntityConfigs
from broker.http.metrics_config import MetricsConfig
from broker.telemetry.telemetry import Telemetry
from broker.telemetry.telemetry_series import ClientSeries


def make_telemetry(
    entity_configs: EntityConfigs,
    config: MetricsConfig,
    registry: CollectorRegistry,
    *,
    max_bytes: int,
    clock: Callable[[], float],
) -> tuple[Telemetry, ClientSeries]:
    """Return what clients push to, and the series that come of it."""
    series = ClientSeries(registry, config=config, clock=clock)
    telemetry = Telemetry(entity_configs, series, max_bytes=max_bytes, new_id=uuid4, clock=clock)
    return telemetry, series
