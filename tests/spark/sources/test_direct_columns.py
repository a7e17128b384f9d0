"""Records decoded many at a time are those that are decoded one by one."""

import struct
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from protocol.errors import InvalidRecords
from protocol.records import Record, decode_records, encode_records
from spark.sources import record_chunks, record_starts
from spark.sources.cut import Range
from spark.sources.record_chunks import Payload
from spark.sources.record_columns import SCHEMA_WITH_HEADERS, RecordColumns

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BASE_MS = 1_700_000_000_000
LAST_MS = (2**63 - 1) // 1000
EVERYTHING = Range(start=0, end=2**62)

# so long that their length takes three bytes; drawn small, for Hypothesis has to hold what it drew
long_bytes = st.builds(bytes.__mul__, st.binary(min_size=8, max_size=8), st.integers(1024, 1125))
nullable_bytes = st.none() | st.binary(max_size=200) | long_bytes
records = st.builds(
    Record,
    offset_delta=st.integers(1, 300),  # steps, until they are added up
    timestamp_delta_ms=st.integers(-(2**40), 2**40),
    key=nullable_bytes,
    value=nullable_bytes,
    headers=st.lists(st.tuples(st.text(max_size=20), nullable_bytes), max_size=4).map(tuple),
)


@st.composite
def payloads(draw: st.DrawFn) -> list[Payload]:
    """Draw batches as they lie in a log: with gaps if they were compacted, maybe empty."""
    found: list[Payload] = []
    offset = draw(st.integers(0, 2**40))
    for drawn in draw(st.lists(st.lists(records, max_size=8), max_size=5)):
        deltas = accumulate((record.offset_delta for record in drawn), initial=-1)
        placed = [
            with_delta(record, delta) for record, delta in zip(drawn, list(deltas)[1:], strict=True)
        ]
        last = offset + sum(record.offset_delta for record in drawn)
        found.append(
            Payload(
                data=encode_records(placed),
                count=len(placed),
                base_offset=offset,
                last_offset=last,
                base_timestamp_ms=BASE_MS,
                append_time_ms=draw(st.none() | st.integers(0, 2**41)),
            )
        )
        offset = last + draw(st.integers(1, 10))
    return found


def with_delta(record: Record, offset_delta: int) -> Record:
    return Record(
        offset_delta=offset_delta,
        timestamp_delta_ms=record.timestamp_delta_ms,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def one_by_one(found: list[Payload]) -> list[dict[str, Any]]:
    """Return the rows that records make which are decoded by protocol/records.py."""
    rows: list[dict[str, Any]] = []
    for payload in found:
        for record in decode_records(payload.data, payload.count, from_producer=False):
            own_ms = payload.base_timestamp_ms + record.timestamp_delta_ms
            stamped = payload.append_time_ms is not None
            timestamp_ms = payload.append_time_ms if payload.append_time_ms is not None else own_ms
            headers = [{"key": key, "value": value} for key, value in record.headers]
            rows.append(
                {
                    "key": record.key,
                    "value": record.value,
                    "topic": "orders",
                    "partition": 3,
                    "offset": payload.base_offset + record.offset_delta,
                    "timestamp": EPOCH + timedelta(milliseconds=timestamp_ms),
                    "timestampType": 1 if stamped else 0,
                    "headers": headers or None,
                }
            )
    return rows


def columns(offsets: Range = EVERYTHING, **options: Any) -> RecordColumns:
    return RecordColumns("orders", 3, offsets=offsets, include_headers=True, **options)


@given(
    found=payloads(),
    rows_at_once=st.sampled_from([1, 2, 3, 100]),
    window_bytes=st.sampled_from([1, 7, 64, 300, 2**20]),
)
def test_columns_have_what_records_have(
    found: list[Payload], rows_at_once: int, window_bytes: int
) -> None:
    # Given batches, cut anywhere into chunks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_chunks, "MAX_ROWS", rows_at_once)
        patch.setattr(record_starts, "WINDOW_BYTES", window_bytes)
        # When they are decoded many records at a time
        batches = list(columns().decode(found))

    # Then every column has what each record has
    assert rows_of(batches) == one_by_one(found)
    assert all(batch.schema == SCHEMA_WITH_HEADERS for batch in batches)
    assert all(0 < batch.num_rows <= rows_at_once for batch in batches)
    for batch in batches:
        batch.validate(full=True)


plain = st.lists(st.binary(max_size=300) | st.integers(0, 300).map(bytes), min_size=1, max_size=60)


@given(values=plain, window_bytes=st.sampled_from([64, 300, 2**20]))
def test_guesses_lead_where_lengths_lead(values: list[bytes], window_bytes: int) -> None:
    # Given records without headers, full of zeros or with hardly any
    encoded = [encode_records([Record(offset_delta=0, value=value)]) for value in values]
    payload = b"".join(encoded)
    data = payload + bytes(record_starts.PADDING_BYTES)

    # When their starts are found with the help of guesses
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_starts, "WINDOW_BYTES", window_bytes)
        view = np.frombuffer(data, np.uint8)
        starts = record_starts.find_starts(data, view, len(payload), len(values))

    # Then each is where the one before it ends
    assert starts.tolist() == list(accumulate(map(len, encoded), initial=0))


@given(found=payloads(), data=st.data())
def test_only_what_is_wanted_comes(found: list[Payload], data: st.DataObject) -> None:
    # Given offsets and times that are wanted, some inside of batches
    rows = one_by_one(found)
    places = st.sampled_from([row["offset"] for row in rows] or [0])
    start, end = sorted((data.draw(places), data.draw(places)))
    times = st.none() | st.integers(BASE_MS - 2**40, BASE_MS + 2**40)
    first_ms, end_ms = data.draw(times), data.draw(times)

    # When they are read
    wanted = columns(Range(start=start, end=end), timestamps_ms=(first_ms, end_ms))
    batches = list(wanted.decode(found))

    # Then just those come
    def is_wanted(row: dict[str, Any]) -> bool:
        timestamp_ms = (row["timestamp"] - EPOCH) // timedelta(milliseconds=1)
        return (
            start <= row["offset"] < end
            and (first_ms is None or timestamp_ms >= first_ms)
            and (end_ms is None or timestamp_ms < end_ms)
        )

    assert rows_of(batches) == [row for row in rows if is_wanted(row)]


@settings(max_examples=300)
@given(found=payloads(), data=st.data())
def test_what_is_no_record_is_refused(found: list[Payload], data: st.DataObject) -> None:
    # Given a batch, some bytes of which are others (their checksum was made for them)
    payload = data.draw(st.sampled_from([*filter(lambda each: each.data, found), some_payload()]))
    damaged = bytearray(payload.data)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    broken = Payload(
        data=bytes(damaged),
        count=payload.count + data.draw(st.sampled_from([0, 0, 1, -1])),
        base_offset=payload.base_offset,
        last_offset=payload.last_offset,
        base_timestamp_ms=BASE_MS,
    )

    # When it is decoded one record after the other, and many at a time
    try:
        expected = one_by_one([broken])
    except (InvalidRecords, OverflowError):
        expected = None
    try:
        rows = rows_of(list(columns().decode([broken])))
    except (InvalidRecords, OverflowError, ValueError):
        rows = None

    # Then both say the same; but the offsets of a batch also have to be within it, names of headers
    # that are no text are replaced, and Python has no dates beyond its own
    if rows is None or expected is None:
        lenient = rows is not None and "�" in str(rows)
        strict = expected is not None and expected[-1]["offset"] > payload.last_offset
        assert rows == expected or lenient or strict
    else:
        assert rows == expected


def some_payload() -> Payload:
    data = encode_records(
        [Record(offset_delta=0, key=b"k", value=b"v" * 70, headers=(("h", b"x"),))]
    )
    return Payload(data=data, count=1, base_offset=7, last_offset=7, base_timestamp_ms=BASE_MS)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x80\x80\x80\x80\x80\x01",  # a length that does not end
        b"\xff" * 20,
        b"\x0e" + bytes(6),  # a record that is longer than the batch
        b"\x0c\x00" + b"\xff" * 10 + bytes(4),  # a time that does not end
        b"\x01" + bytes(6),
    ],
)
def test_damaged_lengths_are_refused(data: bytes) -> None:
    payload = Payload(data=data, count=1, base_offset=0, last_offset=0, base_timestamp_ms=0)
    with pytest.raises(InvalidRecords):
        list(columns().decode([payload]))


@pytest.mark.parametrize(
    ("base_ms", "delta_ms", "read_ms"),
    [
        (0, 2**62, LAST_MS),  # the year 146 million, which Spark cannot hold in microseconds
        (-(10**18), 0, -LAST_MS),
        (2**63 - 1, 2**63 - 1, LAST_MS),
        (-(2**63), -1, -LAST_MS),
        (10**18, 5 - 10**18, 5),
        (LAST_MS, 0, LAST_MS),
    ],
)
def test_a_timestamp_beyond_spark_s_is_its_last(base_ms: int, delta_ms: int, read_ms: int) -> None:
    # When a record has a timestamp that any client may send
    record = Record(offset_delta=0, timestamp_delta_ms=delta_ms)
    payload = Payload(
        data=encode_records([record]),
        count=1,
        base_offset=0,
        last_offset=0,
        base_timestamp_ms=base_ms,
    )

    # Then it is read
    (batch,) = columns().decode([payload])
    assert batch["timestamp"].view(pa.int64()).to_pylist() == [1000 * read_ms]


def test_names_of_headers_that_are_no_text_are_replaced() -> None:
    # Given a header whose name is not UTF-8: the log takes it, no batch is looked into
    name = struct.pack(">bb", 0xFF - 256, ord("a"))
    body = b"\x00\x00\x00\x01\x01\x02\x04" + name + b"\x02x"
    payload = Payload(
        data=bytes([2 * len(body)]) + body,
        count=1,
        base_offset=0,
        last_offset=0,
        base_timestamp_ms=0,
    )
    (row,) = rows_of(list(columns().decode([payload])))
    assert row["headers"] == [{"key": "�a", "value": b"x"}]


def test_the_schema_is_spark_s() -> None:
    # Given the columns of format("kafka")
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    schema = StructType(
        [
            StructField("key", BinaryType()),
            StructField("value", BinaryType()),
            StructField("topic", StringType()),
            StructField("partition", IntegerType()),
            StructField("offset", LongType()),
            StructField("timestamp", TimestampType()),
            StructField("timestampType", IntegerType()),
            StructField("headers", ArrayType(header)),
        ]
    )

    # Then Arrow's are what Spark takes for them
    assert to_arrow_schema(schema).types == SCHEMA_WITH_HEADERS.types
