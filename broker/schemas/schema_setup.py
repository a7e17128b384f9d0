"""Builds schema validation from the broker's configs."""

from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry

from broker.record_scans import RecordScans
from broker.schemas.registry_client import RegistryClient
from broker.schemas.schema_config import SchemaConfig
from broker.schemas.schema_metrics import RegistryMetrics, ValidationMetrics
from broker.schemas.schema_registry import SchemaRegistry
from broker.schemas.schema_validation import SchemaValidation
from broker.secrets_config import RegistryLogin


def make_schemas(
    config: SchemaConfig, login: RegistryLogin, scans: RecordScans, metrics: CollectorRegistry
) -> tuple[SchemaValidation, Callable[[], Awaitable[None]]]:
    """Return what validates batches, and what ends its connections to the schema registry."""
    client = RegistryClient(
        config.registry_url,
        login=login,
        timeout_s=config.request_timeout_ms / 1000,
        metrics=RegistryMetrics(metrics),
    )
    registry = SchemaRegistry(
        client,
        max_remembered=config.max_cache_size,
        unknown_s=config.missing_id_ttl_s,
    )
    validation = SchemaValidation(
        registry,
        scans,
        on_failure=config.on_registry_failure,
        metrics=ValidationMetrics(metrics),
    )
    return validation, client.close
