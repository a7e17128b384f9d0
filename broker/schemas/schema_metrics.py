"""What the broker counts of schema validation and of the schema registry."""

from typing import Literal

from prometheus_client import CollectorRegistry, Counter


class RegistryMetrics:
    """Requests to the schema registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "streamhouse_schema_registry_requests",
            "Requests to the schema registry, by what came of them.",
            ("result",),
            registry=registry,
        )
        for result in ("found", "unknown", "failed"):
            self._requests.labels(result)

    def asked(self, result: Literal["found", "unknown", "failed"]) -> None:
        """Take note of one request."""
        self._requests.labels(result).inc()


class ValidationMetrics:
    """What schema validation did with record batches."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._refused = Counter(
            "streamhouse_schema_validation_refused",
            "Record batches refused: without a schema's id, of an unknown schema, or unchecked"
            " because the registry did not answer.",
            ("reason",),
            registry=registry,
        )
        for reason in ("no_id", "unknown", "registry"):
            self._refused.labels(reason)
        self._unchecked = Counter(
            "streamhouse_schema_validation_unchecked",
            "Record batches accepted although the registry did not answer for them.",
            registry=registry,
        )

    def refused(self, reason: Literal["no_id", "unknown", "registry"]) -> None:
        """Take note of a batch that is not appended."""
        self._refused.labels(reason).inc()

    def accepted_unchecked(self) -> None:
        """Take note of a batch that is appended unchecked."""
        self._unchecked.inc()
