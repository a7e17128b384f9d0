"""Builds schema validation from the broker's configs."""

from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry

from broker.configs.broker_configs import BrokerConfig
from broker.record_looks import RecordLooks
from broker.schemas.registry_client import RegistryClient
from broker.schemas.schema_metrics import RegistryMetrics, ValidationMetrics
from broker.schemas.schema_registry import SchemaRegistry
from broker.schemas.schema_validation import SchemaValidation
from broker.secrets_config import RegistryLogin


def make_schemas(
    config: BrokerConfig, login: RegistryLogin, looks: RecordLooks, metrics: CollectorRegistry
) -> tuple[SchemaValidation, Callable[[], Awaitable[None]]]:
    """Return what validates batches, and what ends its connections to the schema registry."""
    client = RegistryClient(
        config.confluent_schema_registry_url,
        login=login,
        timeout_s=config.confluent_schema_registry_request_timeout_ms / 1000,
        metrics=RegistryMetrics(metrics),
    )
    registry = SchemaRegistry(
        client,
        max_remembered=config.confluent_schema_registry_max_cache_size,
        unknown_s=config.confluent_missing_id_cache_ttl_sec,
    )
    validation = SchemaValidation(
        registry,
        looks,
        on_failure=config.confluent_schema_validation_on_registry_failure,
        metrics=ValidationMetrics(metrics),
    )
    return validation, client.close
