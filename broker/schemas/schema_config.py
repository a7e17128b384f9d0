"""What the broker's configs say of schema validation and its registry."""

from collections.abc import Mapping
from dataclasses import dataclass

from storage.configs.config_types import ConfigValue, integer, strings


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaConfig:
    """The broker configs in force whose names begin with `confluent.`.

    Attributes:
        registry_url: of the registry's nodes; empty if there is no registry.
        request_timeout_ms: of one question to the registry.
        max_cache_size: answers that are remembered.
        missing_id_ttl_s: for how long it is remembered that there is no such id.
        on_registry_failure: what becomes of records that the registry does not answer for.
    """

    registry_url: tuple[str, ...]
    request_timeout_ms: int
    max_cache_size: int
    missing_id_ttl_s: int
    on_registry_failure: str


def schema_config(values: Mapping[str, ConfigValue | None]) -> SchemaConfig:
    """Return the part of the values of all broker configs that is about schemas."""
    return SchemaConfig(
        registry_url=strings(values, "confluent.schema.registry.url"),
        request_timeout_ms=integer(values, "confluent.schema.registry.request.timeout.ms"),
        max_cache_size=integer(values, "confluent.schema.registry.max.cache.size"),
        missing_id_ttl_s=integer(values, "confluent.missing.id.cache.ttl.sec"),
        on_registry_failure=str(values["confluent.schema.validation.on.registry.failure"]),
    )
