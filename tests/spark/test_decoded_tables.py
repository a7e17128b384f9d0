"""What becomes a row and what a dead letter, and how columns are found out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)
from pyspark.testing import assertDataFrameEqual

from spark.jobs.logic import Logic, parse_columns
from spark.tables import drift, outlines
from spark.tables.deadletter import LEFT_OUT, complement, dead_letters, left
from spark.tables.decoded import Values, decode, rows_of

RECORD = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
BROKEN = "the value is not of the Avro schema that it names"
COLUMNS = StructType([StructField("id", LongType(), False), StructField("name", StringType())])
ORDER = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]}"""
MAYBE = """{"type": "record", "name": "Maybe", "fields": [
    {"name": "id", "type": ["null", "long"]}, {"name": "name", "type": "string"}]}"""
REFUND = """{"type": "record", "name": "Refund", "fields": [{"name": "refund", "type": "long"}]}"""

_NUMBERS = st.integers() | st.integers(-(10**45), 10**45) | st.floats(allow_nan=False)
_LEAVES = st.none() | st.booleans() | st.text() | _NUMBERS
_NAMES = st.text("abcABC\N{GRINNING FACE}_", min_size=1)
OBJECTS = st.dictionaries(
    _NAMES,
    st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(_NAMES, inner)),
)


def records(session: SparkSession, *values: bytes | None) -> DataFrame:
    rows = [("t", 0, offset, None, None, value, None) for offset, value in enumerate(values)]
    return session.createDataFrame(rows, RECORD)


def reasons(decoded: DataFrame) -> list[str | None]:
    return [row["reason"] for row in decoded.sort("offset").select("reason").collect()]


def test_what_fits_is_a_row_and_everything_else_has_a_reason(session: SparkSession) -> None:
    # Given one value of each kind
    given: dict[bytes | None, str | None] = {
        b'{"id":0,"name":"x"}': None,
        b' {"id":1}': None,
        None: None,
        b'{"id":3,"extra":null}': None,
        b'{"id":4,"name":{"z":1}}': None,
        b"nope": "the value is not a JSON object",
        b"null": "the value is not a JSON object",
        b'[{"id":1},{"id":2}]': "the value is not a JSON object",
        b'{"id":1': "the value is not one JSON object",
        b'{"id":1}{"id":2}': "the value is not one JSON object",
        b"\xff": "the value is not UTF-8 text",
        b'{"id":"11"}': "does not fit its column: id",
        b'{"id":1.5}': "does not fit its column: id",
        b'{"id":9999999999999999999}': "does not fit its column: id",
        b'{"name":"n"}': "is missing: id",
        b'{"id":15,"b":1,"a b":2}': "has no column: a b, b",
        b'\n\t\r{"id":16}\n': None,
        b'{"id":17,"":1}': 'has no column: ""',
        b'{"id":1},"b":2': "the value is not one JSON object",
        b'{"id":1},{"b":2}': "the value is not one JSON object",
        b'{"id":1},{"streamhouse_end":true}]': "the value is not one JSON object",
        b'{"id":1},"streamhouse_end":true}': "the value is not one JSON object",
    }

    # When
    decoded = decode(records(session, *given), Values(columns=COLUMNS)).cache()

    # Then
    assert reasons(decoded) == list(given.values())
    expected = [(0, 0, "x"), (1, 1, None), (2, None, None), (3, 3, None), (4, 4, '{"z":1}')]
    expected.append((16, 16, None))
    rows = rows_of(decoded).select("_kafka_offset", "id", "name")
    assertDataFrameEqual(rows, session.createDataFrame(expected, rows.schema))
    assert dead_letters(decoded).count() == len(given) - len(expected)


@pytest.mark.parametrize("kind", [rows_of, dead_letters])
def test_a_value_is_read_as_often_however_many_columns_there_are(
    session: SparkSession, tmp_path: Path, kind: Callable[[DataFrame], DataFrame]
) -> None:
    # Given records that no optimizer knows, and 30 columns
    records(session, b'{"c0":1}').write.parquet(str(tmp_path / "records"))
    columns = StructType([StructField(f"c{number}", LongType()) for number in range(30)])

    # When what is chosen by its reason is planned
    chosen = kind(decode(session.read.parquet(str(tmp_path / "records")), Values(columns=columns)))
    plan = chosen._jdf.queryExecution().executedPlan().toString()

    # Then a value is read for its columns, and for its names
    assert plan.count("from_json(") == 2


def test_a_field_that_an_object_inside_has_not_is_told(session: SparkSession) -> None:
    # Given columns with objects in objects and arrays, and values with more in them
    columns = parse_columns(
        "a struct<b: bigint, c: struct<d: string>>,"
        " l array<struct<p: bigint, m: array<struct<x: int>>>>, k map<string, struct<x: int>>"
    )
    given: dict[bytes | None, str | None] = {
        b'{"a":{"b":1,"c":{"d":"x"}},"l":[{"p":1,"m":[{"x":1},null]},null]}': None,
        b'{"a":null,"l":[]}': None,
        b'{"a":{"b":1,"new":null}}': None,
        b'{"k":{"any":{"x":1},"none":null}}': None,
        b'{"k":{"any":{"x":1,"y":2}}}': "has no column: k.y",
        b'{"a":{"":1}}': 'has no column: a.""',
        b'{"a":{"c":{"d":{"any":"text"}}}}': None,
        b'{"a":{"c":{"e":1}},"top":1}': "has no column: a.c.e, top",
        b'{"l":[{"p":1},{"q":2},{"q":3,"m":[{"y":1}]}]}': "has no column: l.m.y, l.q",
    }

    # When
    decoded = decode(records(session, *given), Values(columns=columns)).cache()

    # Then it is no row that lacks them
    assert reasons(decoded) == list(given.values())

    # And it is one where they are ignored
    ignoring = Values(columns=columns, ignore_unknown=True)
    assert set(reasons(decode(records(session, *given), ignoring))) == {None}


def test_new_fields_become_columns_if_tables_can_have_them(session: SparkSession) -> None:
    # Given fields that are new, of two types, only null, the same but for case, and without a name
    given = records(
        session,
        b'{"id":1,"price":1}',
        b'{"id":2,"price":1.5}',
        b'{"id":3,"nothing":null}',
        b'{"id":4,"NAME":"x"}',
        b'{"id":5,"a b":1,"":2}',
        b'{"id":6,"list":[{"x":1}]}',
    )

    # When
    texts = drift.new_shapes(given, COLUMNS, F.col("value"))
    added = drift.additions(COLUMNS, drift.infer(session, texts))

    # Then
    assert added["price"].dataType == DoubleType()
    assert sorted(added.names) == ["list", "price"]
    assert all(one.nullable for one in added)


@pytest.mark.parametrize(
    "odd",
    [
        '{"n":' + "1" * 1_001 + "}",
        '{"n":-1.' + "1" * 1_000 + "}",
        '{"n":1e' + "1" * 1_000 + "}",
        '{"' + "k" * 50_001 + '":1}',
        '{"o":[{"' + "\N{GRINNING FACE}" * 25_001 + '":1}]}',
    ],
)
def test_what_the_json_reader_refuses_gives_no_columns(session: SparkSession, odd: str) -> None:
    # When a number or a name is longer than Spark's reader takes, in one value of many
    found = drift.infer(session, ['{"a":1}', odd, '{"b":"' + "x" * 60_000 + '"}'])

    # Then the others have their columns
    assert found == StructType().add("a", "long").add("b", "string")


def test_columns_are_found_out_from_any_number_of_wide_values(session: SparkSession) -> None:
    # Given values of a megabyte each, with a new field of each kind
    kinds = ('"%s"' % ("x" * 1_000_000), "[" + "1," * 500_000 + "2.5]", '""', "12", "1" * 30)
    names = [f"f{number}" for number in range(200)]
    texts = [f'{{"{name}":{kinds[number % len(kinds)]}}}' for number, name in enumerate(names)]

    # When
    found = drift.infer(session, texts)

    # Then each of them has a column
    types = {one.name: one.dataType.simpleString() for one in found}
    of_kinds = ("string", "array<double>", "string", "bigint", "decimal(30,0)")
    assert types == {name: of_kinds[number % len(kinds)] for number, name in enumerate(names)}


def test_what_is_collected_of_wide_values_is_bounded(session: SparkSession) -> None:
    # Given more values of a megabyte than are looked at, each with a new field, and short ones
    count = drift.SHAPES_BYTES // 1_000_000
    wide = [f'{{"wide{number}":"{"x" * 1_000_000}"}}' for number in range(count + 10)]
    short = [f'{{"short{number}":{"1" * 100},"id":1}}' for number in range(10)]
    given = records(session, *(text.encode() for text in [*wide, *short]))

    # When
    texts = drift.new_shapes(given, COLUMNS, F.col("value"))

    # Then all short ones are there, and of the long ones as many as fit
    assert sorted(text for text in texts if len(text) < 1_000) == short
    assert len([text for text in texts if text in wide]) == count - 1
    assert len(texts) == count - 1 + len(short)


@given_any(value=OBJECTS)
def test_an_outline_has_the_columns_of_what_it_is_of(session: SparkSession, value: Any) -> None:
    text = json.dumps(value)
    short = outlines.outline(text)
    assert short is not None
    assert reader_columns(session, short) == reader_columns(session, text)


def reader_columns(session: SparkSession, text: str) -> str:
    """Return what Spark's own reader makes of a value."""
    row = session.range(1).select(F.schema_of_json(F.lit(text))).head()
    assert row is not None
    columns: str = row[0]
    return columns


def test_fields_of_objects_count_among_columns() -> None:
    # Given a table, and new fields: one object too large, and two that fit one without the other
    half = drift.COLUMNS_COUNT // 2
    found = [
        StructField("large", of_fields(drift.COLUMNS_COUNT)),
        StructField("first", ArrayType(of_fields(half))),
        StructField("second", of_fields(half)),
        StructField("number", LongType()),
    ]

    # When
    added = drift.additions(COLUMNS, found)

    # Then
    assert added.names == ["first", "number"]


def of_fields(count: int) -> StructType:
    return StructType([StructField(f"f{number}", LongType()) for number in range(count)])


def test_a_value_of_many_levels_is_a_dead_letter(session: SparkSession) -> None:
    # Given values of as many levels as columns have at most, of one more, and of what JSON may have
    most = outlines.LEVELS_COUNT
    given = records(
        session,
        b'{"id":0}',
        nested(b'{"fits":', most),
        nested(b'{"no":', most + 1),
        *(nested(b'{"deep":', levels) for levels in (300, 495, 900, 985)),
        *(b'{"list":' + b"[" * levels + b"1" + b"]" * levels + b"}" for levels in (495, 985)),
    )

    # When columns are found out, and all is decoded
    values = Logic().values(given, StructType().add("id", LongType()))
    decoded = decode(given, values).cache()

    # Then the first ones are rows, and the others say what they have that is no column
    assert values.columns.names == ["id", "fits"]
    assert reasons(decoded) == [
        None,
        None,
        "has no column: no",
        *["has no column: deep"] * 4,
        *["has no column: list"] * 2,
    ]


def nested(opening: bytes, levels: int) -> bytes:
    return opening * levels + b"1" + b"}" * levels


def test_values_of_a_registry(session: SparkSession) -> None:
    # Given Avro of two schemas and of one whose id may be null, JSON, an unknown schema, and none
    frames = session.range(1).select(
        F.concat(
            F.unhex(F.lit("0000000007")),
            to_avro(F.struct(F.lit(5).cast("long").alias("id"), F.lit("n").alias("name")), ORDER),
        ),
        F.concat(
            F.unhex(F.lit("0000000008")),
            to_avro(F.struct(F.lit(9).cast("long").alias("refund")), REFUND),
        ),
    )
    (order, refund) = (bytes(value) for value in frames.collect()[0])
    json_value = b"\0\0\0\0\x09" + b'{"id":6}'
    no_id = b"\0\0\0\0\x06" + b"\0\x02n"
    given = records(session, order, refund, json_value, b"\0\0\0\0\x0a..", b"{}", order[:6], no_id)
    values = Values(columns=COLUMNS, registered={6: MAYBE, 7: ORDER, 8: REFUND, 9: None})

    # When
    decoded = decode(given, values)

    # Then
    assert reasons(decoded) == [
        None,
        "is missing: id",
        None,
        "no schema of this topic has the id 10",
        "the value does not begin with the id of a schema",
        BROKEN,
        "is missing: id",
    ]
    rows = rows_of(decoded).select("_kafka_offset", "id", "name")
    expected = [(0, 5, "n"), (2, 6, None)]
    assertDataFrameEqual(rows, session.createDataFrame(expected, rows.schema))


def test_broken_avro_is_a_dead_letter(session: SparkSession) -> None:
    # Given records of nulls, real and broken ones, and lengths of two billion of what is not there
    length = b"\x80\xd0\xac\xf3\x0e"
    given = {
        b"\0\0\0\0\x01\x00\x02": None,  # both null
        b"\0\0\0\0\x01\x03\x03": BROKEN,
        b"\0\0\0\0\x01\x00\x02\x00": BROKEN,
        b"\0\0\0\0\x02\x80\x80": BROKEN,  # of fields that cannot be null
        b"\0\0\0\0\x02" + length + b"x": BROKEN,
        b"\0\0\0\0\x02\x00" + length + b"x": BROKEN,
        b"\0\0\0\0\x03" + length + b"x": BROKEN,
    }
    registered = {
        1: avro_of(["null", "string"], ["string", "null"]),
        2: avro_of("string", "bytes"),
        3: avro_of({"type": "array", "items": "string"}),
    }

    # When
    columns = StructType().add("a", "string")
    values = Values(columns=columns, registered=registered, ignore_unknown=True)
    decoded = decode(records(session, *given), values)

    # Then what is broken says so, and Spark lives
    assert reasons(decoded) == list(given.values())


def avro_of(*kinds: object) -> str:
    fields = [{"name": name, "type": kind} for name, kind in zip("ab", kinds, strict=False)]
    return json.dumps({"type": "record", "name": "Given", "fields": fields})


@pytest.mark.parametrize("in_table", [[0, 1], [0], []])
def test_what_the_table_has_not_is_a_dead_letter(
    session: SparkSession, in_table: list[int]
) -> None:
    # Given a batch, and rows of it that were written with other logic
    decoded = decode(records(session, b'{"id":0}', b"bad"), Values(columns=COLUMNS))
    places = [("t", 0, offset) for offset in in_table]
    rows = session.createDataFrame(
        places, "_kafka_topic string, _kafka_partition int, _kafka_offset bigint"
    )

    # When
    letters = complement(decoded, rows)

    # Then each record is in one of both
    found = {row["offset"]: row["reason"] for row in letters.collect()}
    assert found.keys() == {0, 1} - set(in_table)
    assert found.get(0, LEFT_OUT) == LEFT_OUT
    assert left(letters.union(letters), rows).count() == len(found)
