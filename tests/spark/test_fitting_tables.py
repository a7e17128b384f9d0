"""Numbers and times that Spark's JSON reader would change on their way into columns."""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark.jobs.logic import Logic, parse_columns
from spark.tables.decoded import Values, decode, rows_of
from tests.spark.test_decoded_tables import reasons, records

HUGE: Final = "9" * 38


CASES: Final[list[tuple[str, str, str | None]]] = [
    ("decimal(10,2)", "10.05", "10.05"),
    ("decimal(10,2)", "10.0500", "10.05"),
    ("decimal(10,2)", "1005e-2", "10.05"),
    ("decimal(10,2)", "-0.0", "0.00"),
    ("decimal(10,2)", "10.005", None),
    ("decimal(10,2)", "99999999.996", None),
    ("decimal(10,2)", "123456789", None),
    ("decimal(20,0)", "18446744073709551615", "18446744073709551615"),
    ("decimal(20,0)", "1.0", "1"),
    ("decimal(20,0)", "1.4", None),
    ("decimal(20,0)", "1e-18", None),
    ("decimal(20,2)", "123456789012345678.25", "123456789012345678.25"),
    ("decimal(20,2)", "123456789012345678.251", None),
    ("decimal(38,0)", HUGE, HUGE),
    ("decimal(38,0)", "0.75", None),
    ("decimal(38,20)", "0.12345678901234567891", "0.12345678901234567891"),
    ("decimal(38,20)", "1.00000000000000000001", "1.00000000000000000001"),
    ("array<decimal(10,2)>", "[1.25,null]", "[1.25, null]"),
    ("array<decimal(10,2)>", "[1.25,1.255]", None),
    ("struct<x: decimal(10,2), y: string>", '{"x":1.25}', "{1.25, null}"),
    ("struct<x: decimal(10,2), y: string>", '{"x":1.255}', None),
    ("array<map<string, decimal(4,0)>>", '[{"k":1.5}]', None),
    ("array<map<string, decimal(4,0)>>", '[{"k":1}]', "[{k -> 1}]"),
    ("timestamp", '"2026-06-24T10:00:00Z"', "2026-06-24 10:00:00"),
    ("timestamp", "1782295200", "2026-06-24 10:00:00"),
    ("timestamp", "-1", "1969-12-31 23:59:59"),
    ("timestamp", "1782295200000", None),  # milliseconds
    ("timestamp", "1782295200000000", None),  # whose seconds Spark has no room for
    ("struct<t: timestamp, z: int>", '{"t":1782295200000}', None),
    ("array<map<string, timestamp>>", '[null,{"k":1782295200000}]', None),
    ("array<map<string, timestamp>>", '[null,{"k":1}]', "[null, {k -> 1970-01-01 00:00:01}]"),
    ("timestamp", "202401", "1970-01-03 08:13:21"),
    ("timestamp", '"202401"', None),  # whose month is taken for digits of a year
    ("timestamp_ntz", '"202401"', None),
    ("timestamp", '"9999-12-31T23:59:59Z"', "9999-12-31 23:59:59"),
    ("array<struct<t: timestamp>>", '[{"t":"202401"}]', None),
    ("date", '"2024-01-15"', "2024-01-15"),
    ("date", '"20240115"', None),  # days since 1970
    ("date", '"15"', None),
    ("date", '"202401"', None),
    ("date", '"-0001-01-01"', None),
    ("map<string, date>", '{"k":"202401"}', None),
    ("map<string, date>", '{"k":"2024-01-15"}', "{k -> 2024-01-15}"),
    ("tinyint", "127", "127"),
    ("tinyint", "-128", "-128"),
    ("tinyint", "128", None),
    ("tinyint", "200", None),
    ("array<tinyint>", "[1,200]", None),
    ("array<tinyint>", "[1,null]", "[1, null]"),
    ("double", "1e300", "1.0E300"),
    ("double", "1e400", None),
    ("double", "-1e400", None),
    ("double", '"-Infinity"', "-Infinity"),
    ("float", "1e39", None),
    ("float", '"+INF"', "Infinity"),
    ("double", "Infinity", "Infinity"),
    ("struct<x: double>", '{"x":1e400}', None),
    ("array<float>", '[1.5,"Infinity"]', "[1.5, Infinity]"),
]
"""The type of a column, a field's JSON, and what is kept of it; None if it does not fit."""


def test_a_number_is_kept_as_it_is_or_its_record_is_a_dead_letter(session: SparkSession) -> None:
    # Given a column for each case, a record with that field alone, and one whose field is null
    columns = parse_columns(", ".join(f"n{at} {kind}" for at, (kind, _, _) in enumerate(CASES)))
    told = [f'{{"n{at}":{number}}}'.encode() for at, (_, number, _) in enumerate(CASES)]
    nulls = [f'{{"n{at}":null}}'.encode() for at in range(len(CASES))]

    # When
    decoded = decode(records(session, *told, *nulls), Values(columns=columns)).cache()

    # Then
    misfits = [
        None if kept else f"does not fit its column: n{at}" for at, (*_, kept) in enumerate(CASES)
    ]
    assert reasons(decoded) == [*misfits, *[None] * len(CASES)]
    rows = rows_of(decoded)
    kinds = [rows.schema[name].dataType for name in columns.names]
    assert kinds == [one.dataType for one in columns]
    texts = rows.select("_kafka_offset", *(F.col(name).cast("string") for name in columns.names))
    shown = {row[0]: row[row[0] + 1] for row in texts.collect() if row[0] < len(CASES)}
    assert shown == {at: kept for at, (*_, kept) in enumerate(CASES) if kept is not None}


def test_a_column_of_large_numbers_takes_no_fractions(session: SparkSession) -> None:
    # Given a column that was found out from a number beyond those of bigint
    first = records(session, b'{"n":18446744073709551615}')
    values = Logic().values(first, parse_columns("id bigint"))
    assert values.columns["n"].dataType.simpleString() == "decimal(20,0)"

    # When fractions come, then they are not rounded
    later = decode(records(session, b'{"n":0.75}', b'{"n":1.4}', b'{"n":2}'), values)
    assert reasons(later) == [*["does not fit its column: n"] * 2, None]


def test_what_must_not_be_null_inside_of_a_column_stands_beside_a_decimal(
    session: SparkSession,
) -> None:
    columns = parse_columns(
        "item struct<id: bigint not null, price: decimal(10,2)>,"
        " list array<struct<id: bigint not null, price: decimal(10,2)>>"
    )
    given = records(
        session,
        b'{"item":{"id":1,"price":1.25},"list":[{"id":2,"price":2.5}]}',
        b'{"item":{"id":1,"price":1.255}}',
    )
    decoded = decode(given, Values(columns=columns)).cache()
    assert reasons(decoded) == [None, "does not fit its column: item"]
    shown = rows_of(decoded).select(F.to_json(F.struct("item", "list"))).collect()
    assert [row[0] for row in shown] == [
        '{"item":{"id":1,"price":1.25},"list":[{"id":2,"price":2.50}]}'
    ]
