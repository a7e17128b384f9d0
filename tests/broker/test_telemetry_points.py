"""What of a client's push is exported, and what is refused (KIP-714, OTLP)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
)
from prometheus_client.parser import text_string_to_metric_families

from broker.telemetry import telemetry_points
from broker.telemetry.telemetry_fields import first_fields
from broker.telemetry.telemetry_points import (
    MAX_LABELS,
    MAX_LABELS_TEXT,
    MAX_TEXT,
    Point,
    Push,
    read_push,
    series_name,
)
from protocol.compression import Codec, compress
from protocol.errors import DecompressedTooLarge, InvalidRecords
from tests.support.otlp import a_gauge, a_number, a_sum, an_attribute, payload

MAX_BYTES = 100_000
NAME = "org.apache.kafka.producer.x"


def read(data: bytes, codec: Codec = Codec.NONE, max_points: int = 100) -> Push:
    return read_push(codec, compress(codec, data), max_bytes=MAX_BYTES, max_points=max_points)


@pytest.mark.parametrize("codec", list(Codec))
def test_gauges_and_sums_come_with_their_attributes(codec: Codec) -> None:
    # Given a gauge of two partitions, and sums of each kind
    where = {"topic": 'a"b\\c\nd', "node.id": "1", "client_id": "somebody else"}
    data = payload(
        a_gauge(NAME, a_number(1.5, **where), a_number(2)),
        a_sum("org.apache.kafka.x.total", 3, delta=True),
        a_sum("org.apache.kafka.y", 4.0, delta=False),
        a_sum("org.apache.kafka.z", 5, delta=True, monotonic=False),
        **{"client-rack": "a"},
    )

    # When it is read, then they have Prometheus' names, and the broker's own labels are not theirs
    push = read(data, codec)
    assert push.attributes == {"client_rack": "a"}
    assert push.left_out == 0
    labels = 'node_id="1",topic="a\\"b\\\\c\\nd"'
    assert [
        (one.name, one.labels, one.value, one.is_counter, one.is_delta) for one in push.points
    ] == [
        ("org_apache_kafka_producer_x", labels, 1.5, False, False),
        ("org_apache_kafka_producer_x", "", 2, False, False),
        ("org_apache_kafka_x_total", "", 3, True, True),
        ("org_apache_kafka_y_total", "", 4.0, True, False),
        ("org_apache_kafka_z", "", 5, False, True),
    ]


def test_attributes_may_be_of_any_simple_type() -> None:
    number = NumberDataPoint(
        as_int=1,
        attributes=[
            an_attribute("flag", bool_value=True),
            an_attribute("count", int_value=7),
            an_attribute("share", double_value=0.5),
            an_attribute("blob", bytes_value=b"?"),
            an_attribute("0", string_value="digit"),
        ],
    )
    (point,) = read(payload(a_gauge(NAME, number))).points
    assert point.labels == 'attribute_0="digit",blob="",count="7",flag="true",share="0.5"'


def test_no_client_takes_the_name_of_a_metric_of_the_broker() -> None:
    assert series_name("streamhouse_connections", is_counter=False) == (
        "client_streamhouse_connections"
    )
    assert series_name("org.apache.kafka.a-b.c", is_counter=False) == "org_apache_kafka_a_b_c"
    assert series_name("0", is_counter=True) == "client_0_total"


def test_what_cannot_be_exported_is_counted() -> None:
    # Given a histogram, a point without a value, one with too many labels, a sum that is infinite
    histogram = Histogram(data_points=[HistogramDataPoint(), HistogramDataPoint()])
    crowded = a_number(1, **{f"label{at}": "" for at in range(MAX_LABELS + 1)})
    data = payload(
        Metric(name=NAME, histogram=histogram),
        Metric(name="nothing at all"),
        a_gauge(NAME, NumberDataPoint(), crowded, a_number(math.nan)),
        a_sum(NAME, math.inf, delta=True),
    )

    # Then only the gauge that is not a number is left: that says something, too
    push = read(data)
    (point,) = push.points
    assert math.isnan(point.value)
    assert push.left_out == 5


def test_each_metric_may_have_a_resource_of_its_own() -> None:
    # Given a push as Java clients make it
    metrics = [payload(a_gauge(f"{NAME}.{at}", a_number(at)), rack="a") for at in range(300)]

    # Then all of it counts: messages of protobuf that follow each other are one
    push = read(b"".join(metrics), max_points=1000)
    assert [point.value for point in push.points] == list(range(300))
    assert push.attributes == {"rack": "a"}


def test_only_so_many_points_are_read() -> None:
    push = read(payload(a_gauge(NAME, *(a_number(at) for at in range(10)))), max_points=4)
    assert [point.value for point in push.points] == [0, 1, 2, 3]
    assert push.left_out == 6


def test_only_so_many_metrics_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given more metrics than are read, in resources of their own
    monkeypatch.setattr(telemetry_points, "MAX_METRICS", 3)
    metrics = [payload(a_gauge(NAME, a_number(at))) for at in range(5)]

    # Then the rest is not looked at
    push = read(b"".join(metrics))
    assert [point.value for point in push.points] == [0, 1, 2]


def test_what_is_not_looked_at_is_not_parsed() -> None:
    # Given a metric, and behind it as many empty resources as a push can hold, and no message
    metrics = payload(a_gauge(NAME, a_number(1)))
    resources = b"\x0a\x00" * (2**20 // 2)

    # Then these do not matter
    push = read_push(Codec.NONE, metrics + resources + b"\xff", max_bytes=2**21, max_points=9)
    assert [point.value for point in push.points] == [1]


@given(fields=st.lists(st.tuples(st.integers(1, 2**29 - 1), st.integers(0, 2**64 - 1))))
def test_the_first_fields_are_whole_fields(fields: list[tuple[int, int]]) -> None:
    # Given fields of all kinds
    encoded = [field(number, value) for number, value in fields]

    # Then so many of them are left
    for count in range(len(fields) + 2):
        assert first_fields(b"".join(encoded), count) == b"".join(encoded[:count])


def varint(value: int) -> bytes:
    more = bytearray()
    while value > 0x7F:
        more.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*more, value])


def field(number: int, value: int) -> bytes:
    """Return a field of protobuf; its kind follows from its value."""
    match value % 4:
        case 0:
            return varint(number << 3) + varint(value)
        case 1:
            return varint(number << 3 | 1) + value.to_bytes(8)
        case 2:
            return varint(number << 3 | 2) + varint(value % 300) + bytes(value % 300)
        case _:
            return varint(number << 3 | 5) + (value % 2**32).to_bytes(4)


def test_long_texts_are_cut_off_and_long_labels_left_out() -> None:
    # Given names of any length, and labels that together are long
    long = "x" * (MAX_TEXT + 1)
    labels = {f"label{at}": long for at in range(MAX_LABELS_TEXT // MAX_TEXT)}
    data = payload(a_gauge(long, a_number(1, **{long: long}), a_number(2, **labels)))

    # Then what is exported of them is bounded
    push = read(data)
    (point,) = push.points
    cut = "x" * MAX_TEXT
    assert (point.name, point.labels) == (f"client_{cut}", f'{cut}="{cut}"')
    assert push.left_out == 1


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_payload_that_would_grow_without_bounds_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(10 * MAX_BYTES))
    with pytest.raises(DecompressedTooLarge):
        read_push(codec, bomb, max_bytes=MAX_BYTES, max_points=100)


@pytest.mark.parametrize("codec", list(Codec))
def test_damage_is_refused(codec: Codec) -> None:
    with pytest.raises(InvalidRecords):
        read_push(codec, b"\xff\xff\xff\xff damaged", max_bytes=MAX_BYTES, max_points=100)


@given(data=st.binary(max_size=200))
def test_any_bytes_are_either_read_or_refused(data: bytes) -> None:
    try:
        push = read(data)
    except InvalidRecords:
        return
    assert all(isinstance(point, Point) for point in push.points)


@given(name=st.text(max_size=300), key=st.text(max_size=300), value=st.text(max_size=300))
def test_whatever_a_client_calls_it_prometheus_can_read(name: str, key: str, value: str) -> None:
    # Given a point with names that a client made up
    number = NumberDataPoint(as_int=1, attributes=[an_attribute(key, string_value=value)])
    (point,) = read(payload(a_gauge(name, number))).points

    # When it is exported, then a parser finds one series with one label
    line = f"{point.name}{{{point.labels}}} 1\n"
    (family,) = text_string_to_metric_families(line)
    (sample,) = family.samples
    assert sample.name == point.name
    assert list(sample.labels.values()) == [value[:256]] or not point.labels
