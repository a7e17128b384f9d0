"""What a client pushes of its metrics (KIP-714): OTLP MetricsData in, points as we export them out.

Clients send gauges and sums; what else OTLP has is counted as left out, and so is what comes beyond
the limits. The payload is a peer's: what it decompresses to is bounded before it is allocated.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Final
from uuid import UUID

from broker.http.exposition import escape_label
from broker.telemetry.telemetry_fields import first_fields
from protocol.decompression import decompress
from protocol.errors import CorruptBatch, InvalidRecords

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, NumberDataPoint

CLIENT_LABELS: Final = ("client_id", "client_instance_id", "client_software")
"""Labels that the broker sets; a point's attributes of these names are left out."""

MAX_METRICS: Final = 10_000
"""In a push, the rest is not looked at, and as many scopes and resources, which may be empty. Java
clients give each metric a resource of its own."""

MAX_LABELS: Final = 16
MAX_LABELS_TEXT: Final = 1024
"""Characters of all labels of a point."""

MAX_TEXT: Final = 256
"""Characters of a name or of a label's value; the rest is cut off."""

_STANDARD: Final = "org_apache_kafka_"
_OTHER: Final = "client_"
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")
_TOTAL: Final = "_total"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedMetrics:
    """A PushTelemetry request.

    Attributes:
        codec: as the client says; it may be none that there is.
        terminating: it is the client's last.
    """

    instance_id: UUID | None
    subscription_id: int
    codec: int
    payload: bytes
    terminating: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One number.

    Attributes:
        name: of its series; a counter's ends in _total.
        labels: as broker/http/exposition.py has them, those of the client apart.
        is_delta: to be added to what the series has.
    """

    name: str
    labels: str
    value: float
    is_counter: bool
    is_delta: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """All points of one push.

    Attributes:
        attributes: of the client as a whole, by name (client_rack, group_id …).
        left_out: points that cannot be exported, or are too many.
    """

    points: tuple[Point, ...]
    attributes: Mapping[str, str]
    left_out: int


def read_push(codec: int, payload: bytes, *, max_bytes: int, max_points: int) -> Push:
    """Return what a client pushed.

    Args:
        codec: of protocol.compression.
        payload: the compressed MetricsData.
        max_bytes: that it may have when it is decompressed.
        max_points: that are looked at; the rest is left out.

    Raises:
        UnsupportedCompression: no such codec.
        DecompressedTooLarge: more than `max_bytes`.
        InvalidRecords: it is not what the codec writes, or no MetricsData.
    """
    try:
        data = decompress(codec, payload, max_bytes=max_bytes)
    except CorruptBatch as error:
        raise InvalidRecords(f"telemetry: {error}") from error
    resources = _parse(first_fields(data, MAX_METRICS)).resource_metrics
    attributes: dict[str, str] = {}
    for resource in resources:
        attributes = attributes or dict(_attributes(resource.resource.attributes))
    scopes = chain.from_iterable(resource.scope_metrics for resource in resources)
    metrics = chain.from_iterable(scope.metrics for scope in islice(scopes, MAX_METRICS))
    points: list[Point] = []
    found = 0
    for metric in islice(metrics, MAX_METRICS):
        points += _points(metric, max(max_points - found, 0))
        found += _count(metric)
    return Push(points=tuple(points), attributes=attributes, left_out=found - len(points))


def _parse(data: bytes) -> "MetricsData":
    # Imported with the first push: most brokers never get one, and it takes 0.1 s and 8 MB.
    from google.protobuf.message import DecodeError  # noqa: PLC0415
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415

    try:
        message: MetricsData = MetricsData.FromString(data)
    except DecodeError as error:
        raise InvalidRecords(f"telemetry: {error}") from error
    return message


def _count(metric: "Metric") -> int:
    """Return how many points a metric has, of whatever kind."""
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind else 0


def _points(metric: "Metric", limit: int) -> Iterator[Point]:
    """Yield those of the first `limit` points of a metric that can be exported."""
    match metric.WhichOneof("data"):
        case "gauge":
            is_counter = is_delta = False
            found: Iterable[NumberDataPoint] = metric.gauge.data_points
        case "sum":
            is_counter = metric.sum.is_monotonic
            is_delta = metric.sum.aggregation_temporality == 1  # AGGREGATION_TEMPORALITY_DELTA
            found = metric.sum.data_points
        case _:
            return
    name = series_name(metric.name[:MAX_TEXT], is_counter=is_counter)
    for point in islice(found, limit):
        value = _value(point)
        if (
            value is None
            or len(point.attributes) > MAX_LABELS
            or (is_counter and not math.isfinite(value))  # nothing could be added to it any more
        ):
            continue
        labels = _labels(point.attributes)
        if len(labels) <= MAX_LABELS_TEXT:
            yield Point(
                name=name, labels=labels, value=value, is_counter=is_counter, is_delta=is_delta
            )


def _value(point: "NumberDataPoint") -> float | None:
    match point.WhichOneof("value"):
        case "as_double":
            return point.as_double
        case "as_int":
            return point.as_int
        case _:
            return None


@lru_cache(maxsize=4096)
def series_name(name: str, *, is_counter: bool) -> str:
    """Return the Prometheus name of an OTLP metric: org.apache.kafka.x.y -> org_apache_kafka_x_y.

    No client can make it one of the broker's own. What is asked is kept, so it must not be long.
    """
    series = _NOT_IN_NAMES.sub("_", name)
    if not series.startswith(_STANDARD):
        series = _OTHER + series
    return series + _TOTAL if is_counter and not series.endswith(_TOTAL) else series


def _labels(attributes: Iterable["KeyValue"]) -> str:
    labels = dict(_attributes(attributes))
    return ",".join(f'{name}="{escape_label(value)}"' for name, value in sorted(labels.items()))


def _attributes(attributes: Iterable["KeyValue"]) -> Iterator[tuple[str, str]]:
    for attribute in islice(attributes, MAX_LABELS):
        name = _label_name(attribute.key[:MAX_TEXT])
        if name not in CLIENT_LABELS:
            yield name, _text(attribute.value)[:MAX_TEXT]


@lru_cache(maxsize=4096)
def _label_name(key: str) -> str:
    name = _NOT_IN_NAMES.sub("_", key)
    # a name must begin with a letter, and Prometheus keeps those with two underscores for itself
    return name if name[:1].isalpha() else f"attribute_{name}"


def _text(value: "AnyValue") -> str:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return str(value.bool_value).lower()
        case "int_value":
            return str(value.int_value)
        case "double_value":
            return str(value.double_value)
        case _:
            return ""
