"""Rows as record batches and objects: what the sink writes is what Kafka's formats say."""

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from protocol.batch import HEADER_BYTES, batch_extents, read_header
from protocol.compression import Codec
from protocol.decompression import decompress
from protocol.records import Record, decode_records, encode_records
from spark.sinks.direct_chunks import arrange
from spark.sinks.direct_columns import Columns, UnfitRows
from spark.sinks.direct_objects import Seal, SealedObject, seal
from spark.sinks.direct_options import SinkOptions
from spark.sinks.direct_partitions import choose_partitions, murmur2
from spark.sinks.direct_records import Rows, cut, encode, header_blocks, record_bounds
from spark.sinks.direct_task import chunks
from spark.sinks.direct_topics import TopicNotWritable, TopicRules
from storage.sink_commits import SinkTopic
from storage.wal_index import parse_index, parse_index_length

NOW_MS = time.time_ns() // 1_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KINDS: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "timestamp": TimestampType(),
}
SEAL = Seal(writer_id=UUID(int=7), sequence=3, now_ms=NOW_MS, batch_bytes=2000)

nullable_bytes = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), nullable_bytes), max_size=3)
rows_of_kafka = st.lists(
    st.tuples(nullable_bytes, nullable_bytes, st.none() | headers, st.integers(0, 2**45)),
    min_size=1,
    max_size=40,
)


def fields_of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def a_topic(
    name: str = "orders",
    *,
    number: int = 1,
    partitions: int = 4,
    configs: Mapping[str, str] | None = None,
) -> TopicRules:
    topic = SinkTopic(
        topic_id=UUID(int=number),
        name=name,
        leader_epochs=tuple(range(partitions)),
        configs=configs or {},
        defaults={},
    )
    return TopicRules.of(topic, Codec.NONE)


def a_batch(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    named = {name: types[name] for name in rows[0]}
    return pa.RecordBatch.from_pylist(rows, pa.schema(named))


def sealed(rows: Sequence[Mapping[str, Any]], *topics: TopicRules) -> SealedObject:
    """Do what a task does with its rows."""
    schema = fields_of(**{name: KINDS[name] for name in rows[0]})
    columns = Columns.of(schema, None if "topic" in rows[0] else "orders")
    rules = {each.topic.name: each for each in topics}
    return seal(arrange(a_batch(rows), columns, rules, now_ms=NOW_MS, first=0), SEAL)


def values_of(data: bytes) -> list[bytes | None]:
    """Return the values of all batches, which are checked on the way."""
    found: list[bytes | None] = []
    for start, length, count in batch_extents(memoryview(data)):
        header = read_header(data, start)
        payload = decompress(header.codec, data[start + HEADER_BYTES : start + length])
        records = list(decode_records(payload, count))
        found += [record.value for record in records]
    return found


@given(rows=rows_of_kafka, limit=st.integers(0, 400), with_headers=st.booleans())
def test_payloads_are_those_of_the_plain_encoder(
    rows: list[tuple[Any, ...]],
    limit: int,
    with_headers: bool,
) -> None:
    keys, values, entries, times = zip(*rows, strict=True)
    as_structs = [
        each and [{"key": key, "value": value} for key, value in each] for each in entries
    ]
    arranged = Rows(
        keys=pa.array(keys, pa.binary()),
        values=pa.array(values, pa.binary()),
        headers=pa.array(as_structs, HEADERS) if with_headers else None,
        timestamps_ms=np.array(times, np.int64),
    )
    blocks = header_blocks(arranged.headers)
    bounds = record_bounds(arranged, blocks)
    half = len(rows) // 2
    runs = [(0, half), (half, len(rows))] if half else [(0, len(rows))]
    firsts = cut(bounds, runs, [limit] * len(runs))
    payloads = encode(arranged, blocks, firsts)
    assert {start for start, _ in runs} <= set(firsts.tolist())
    assert (np.diff(payloads.offsets) <= bounds).all()
    for first, end in pairwise([*firsts.tolist(), len(rows)]):
        assert end == first + 1 or bounds[first:end].sum() <= limit
        expected = [
            Record(
                offset_delta=number - first,
                timestamp_delta_ms=times[number] - times[first],
                key=keys[number],
                value=values[number],
                headers=tuple(entries[number] or ()) if with_headers else (),
            )
            for number in range(first, end)
        ]
        begin, stop = int(payloads.offsets[first]), int(payloads.offsets[end])
        assert bytes(payloads.data[begin:stop]) == encode_records(expected)


def test_keys_go_where_kafkas_clients_send_them() -> None:
    # Given hashes that are in Apache Kafka's own tests of its murmur2
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }

    # When they are computed, side by side, then they are the same; so are those of long keys
    hashes = murmur2(pa.array(list(known), pa.binary())).astype(np.int32)
    assert hashes.tolist() == list(known.values())
    long = bytes(range(256)) * 15  # 3840 bytes
    alone, longer = murmur2(pa.array([long], pa.binary())), long + long[:256]
    assert murmur2(pa.array([b"x", long, longer], pa.binary()))[1] == alone[0]


def test_records_without_a_key_are_spread() -> None:
    keys = pa.nulls(10_000, pa.binary())
    counts = np.bincount(choose_partitions(keys, 4, 3), minlength=4)
    assert sorted(counts.tolist()) == [2000, 2000, 3000, 3000]


def test_an_object_says_what_it_holds() -> None:
    # Given rows of two topics, the second one's id before the first one's
    rows = [
        {"topic": name, "partition": number % 3, "value": b"%s %d" % (name.encode(), number)}
        for number in range(600)
        for name in ("orders", "users")
    ]

    # When they are sealed
    made = sealed(rows, a_topic(number=9), a_topic("users", number=2))

    # Then partitions ascend, each with its rows in order, in batches of the size that was asked for
    data = b"".join(made.parts)
    assert made.size == len(data)
    index = parse_index(data[-parse_index_length(data) :])
    assert [name for _, name in index.topics] == ["users", "orders"]
    assert (index.writer_id, index.sequence, index.written_ms) == (UUID(int=7), 3, NOW_MS)
    for run in index.runs:
        name = index.topics[run.topic][1]
        expected = [
            row["value"]
            for row in rows
            if row["topic"] == name and row["partition"] == run.partition
        ]
        assert values_of(data[run.start : run.start + run.length]) == expected
        assert (run.record_count, run.leader_epoch) == (200, run.partition)
        assert run.max_timestamp_ms == NOW_MS
    assert {run.partition for run in index.runs} == {0, 1, 2}
    assert all(batch.length <= SEAL.batch_bytes for batch in made.batches)
    assert [batch.start for batch in made.batches] == [
        start for start, _, _ in batch_extents(memoryview(data)[: -parse_index_length(data)])
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_have_the_codec_of_the_topic(codec: str) -> None:
    rows = [{"value": b"same " * 20} for _ in range(100)]
    made = sealed(rows, a_topic(partitions=1, configs={"compression.type": codec}))
    data = b"".join(bytes(part) for part in made.parts[:-1])
    assert read_header(data).codec == Codec[codec.upper()]
    assert values_of(data) == [row["value"] for row in rows]


def test_the_time_of_a_topic_with_log_append_time_is_the_batchs() -> None:
    rules = a_topic(partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
    (header, _, _) = sealed([{"timestamp": 0, "value": b"old"}], rules).parts
    fields = read_header(bytes(header))
    assert fields.is_log_append_time
    assert (fields.base_timestamp_ms, fields.max_timestamp_ms) == (0, NOW_MS)


@pytest.mark.parametrize(
    ("row", "configs", "reason"),
    [
        ({"value": b"x" * 2000}, {"max.message.bytes": "1000"}, "max.message.bytes=1000"),
        ({"value": b""}, {"cleanup.policy": "compact,delete"}, "need a key"),
        ({"value": b"", "partition": 4}, {}, "for partition 4 of topic orders, which has 4"),
        ({"value": b"", "partition": -1}, {}, "negative partition"),
        ({"value": b"", "topic": None}, {}, "no topic"),
        (
            {"value": b"", "timestamp": (NOW_MS + 4_000_000) * 1000},
            {},
            "message.timestamp.after.max.ms",
        ),
    ],
)
def test_what_a_topic_does_not_take_is_refused(
    row: dict[str, Any], configs: dict[str, str], reason: str
) -> None:
    with pytest.raises(UnfitRows, match=reason):
        sealed([row], a_topic(configs=configs))


def test_topics_that_validate_schemas_are_left_to_brokers() -> None:
    with pytest.raises(TopicNotWritable, match="validates schemas"):
        a_topic(configs={"confluent.value.schema.validation": "true"})


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"key": StringType()}, "no column value"),
        ({"value": StringType()}, "no column topic"),
        ({"value": IntegerType(), "topic": StringType()}, "column value is int"),
        ({"value": StringType(), "partition": LongType()}, "is bigint, it has to be int"),
        ({"headers": MapType(StringType(), BinaryType())}, "column headers is map"),
    ],
)
def test_columns_that_do_not_fit_are_named(columns: dict[str, DataType], reason: str) -> None:
    with pytest.raises(UnfitRows, match=reason):
        Columns.of(fields_of(**columns), None)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topik": "orders"}, "without option topik"),
        ({"kafka.compression.type": "brotli"}, "one of none, gzip, snappy, lz4, zstd"),
        ({"objectBytes": "1g"}, "objectBytes is a number"),
        ({"commitWithin": "soon"}, "a time like 90m"),
        ({"idempotencyVersion": "1"}, "is of writes with idempotencyKey"),
    ],
)
def test_options_that_cannot_be_are_named(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        SinkOptions.of(options)


def test_rows_are_gathered_until_they_make_an_object() -> None:
    # Given many small batches and one that is too large
    small = [pa.RecordBatch.from_pydict({"value": [b"x" * 100] * 10}) for _ in range(8)]
    large = pa.RecordBatch.from_pydict({"value": [b"y" * 100] * 100})

    # When they are gathered, then no object is much larger than asked for, and no row is lost
    made = list(chunks(iter([*small, large]), 4000))
    assert all(chunk.nbytes <= 4400 for chunk in made)
    assert len(made) < 8
    values = [value for chunk in made for value in chunk.column(0).to_pylist()]
    assert values == [b"x" * 100] * 80 + [b"y" * 100] * 100
