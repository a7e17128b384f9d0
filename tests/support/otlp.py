"""OTLP MetricsData as clients push it (KIP-714)."""

from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource


def an_attribute(key: str, **value: Any) -> KeyValue:
    """Make an attribute; `value` is one of AnyValue's fields."""
    return KeyValue(key=key, value=AnyValue(**value))


def a_number(value: float, **labels: str) -> NumberDataPoint:
    attributes = [an_attribute(key, string_value=text) for key, text in labels.items()]
    if isinstance(value, int):
        return NumberDataPoint(as_int=value, attributes=attributes)
    return NumberDataPoint(as_double=value, attributes=attributes)


def a_gauge(name: str, *numbers: NumberDataPoint) -> Metric:
    return Metric(name=name, gauge=Gauge(data_points=numbers))


def a_sum(name: str, value: float, *, delta: bool, monotonic: bool = True) -> Metric:
    temporality = AGGREGATION_TEMPORALITY_DELTA if delta else AGGREGATION_TEMPORALITY_CUMULATIVE
    points = Sum(
        data_points=[a_number(value)], aggregation_temporality=temporality, is_monotonic=monotonic
    )
    return Metric(name=name, sum=points)


def payload(*metrics: Metric, **attributes: str) -> bytes:
    """Return what a client sends before it is compressed; `attributes` are of the client."""
    resource = Resource(
        attributes=[an_attribute(key, string_value=text) for key, text in attributes.items()]
    )
    scope = ScopeMetrics(metrics=metrics)
    data = MetricsData(resource_metrics=[ResourceMetrics(resource=resource, scope_metrics=[scope])])
    encoded: bytes = data.SerializeToString()
    return encoded
