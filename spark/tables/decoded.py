"""Values of a topic as columns, or the reason why they are none.

`decode` keeps every record: one row out for one in, with either `row` or `reason`. What is written
of it is chosen by `rows_of`; the rest is `spark.tables.deadletter`.

A value fits if it is one JSON object in UTF-8 (or Avro of a known schema), each field converts to
the type of its column, and it has no field without a column, also inside of objects, arrays and
maps, unless those are ignored. A missing field, or null, is null. A null value (a tombstone) is a
row of nulls: its key says what is gone.

JSON text converts as Spark's from_json does it: a number or an object becomes text in a column of
strings; text becomes no number but a decimal. Numbers, dates and times that it would change on the
way do not fit: see `spark.tables.fitting`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import DataType, StringType, StructField, StructType

from spark.tables.fitting import READ_OPTIONS, is_changed, kept_as, read_as
from spark.tables.unknown import FIELDS, begins_object, unknown_paths
from spark.tables.whole import is_whole, listed

RECORD = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""What `decode` needs of a read with includeHeaders."""
PLACES: Final = (
    StructType()
    .add("_kafka_topic", "string")
    .add("_kafka_partition", "integer")
    .add("_kafka_offset", "long")
    .add("_kafka_timestamp", "timestamp")
    .add("_kafka_key", "binary")
    .add("_kafka_date", "date")
)
"""Columns that every table has beside those of its values; the date is of the timestamp, in UTC.

Shorter names are taken: Iceberg has a _partition of its own.
"""

_CORRUPT = "_corrupt"
_HEADER_BYTES = 5  # a zero and the schema's id, before what a serializer of a registry wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """How values become columns.

    Attributes:
        columns: names and types; a field that is not nullable must be there.
        registered: what a registry has, if values begin with the id of a schema: by id, the Avro
            schema as JSON text, or None where the rest of the value is JSON. None without one.
        ignore_unknown: fields without a column are left out; else their record is no row.
    """

    columns: StructType
    registered: Mapping[int, str | None] | None = None
    ignore_unknown: bool = field(default=False)


def decode(records: DataFrame, values: Values) -> DataFrame:
    """Return RECORD, `row` (struct of the columns, null if it does not fit) and `reason`."""
    if values.registered is None:
        decoded = _decode_json(records, F.col("value"), values)
    else:
        decoded = _decode_registered(records, values, values.registered)
    fits = F.col("reason").isNull()
    row = F.when(fits, F.col("row")).alias("row")
    told = _evaluated_once(F.struct(row, F.col("reason"))).alias("told")
    return decoded.select(*RECORD, told).select(*RECORD, "told.row", "told.reason")


def rows_of(decoded: DataFrame) -> DataFrame:
    """Return what fits: the columns of values, then PLACES."""
    return decoded.where("reason is null").select("row.*", *places())


def places() -> list[Column]:
    """Return PLACES of records."""
    return [
        F.col("topic").alias("_kafka_topic"),
        F.col("partition").alias("_kafka_partition"),
        F.col("offset").alias("_kafka_offset"),
        F.col("timestamp").alias("_kafka_timestamp"),
        F.col("key").alias("_kafka_key"),
        F.to_date("timestamp").alias("_kafka_date"),
    ]


def schema_id() -> Column:
    """Return the id that a serializer of a registry put before a value; null if there is none."""
    value = F.col("value")
    framed = (F.length(value) > _HEADER_BYTES) & (F.hex(F.substring(value, 1, 1)) == "00")
    number = F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("bigint")
    return F.when(framed, number)


def body() -> Column:
    """Return what follows the id of a schema."""
    return F.substring(F.col("value"), _HEADER_BYTES + 1, 2**31 - 1)


def _evaluated_once(value: Column) -> Column:
    """Return a value that a filter on it does not have computed anew, a part of it at a time.

    Spark moves no filter below what may be another thing each time.
    """
    return F.when(F.spark_partition_id() >= 0, value)


def _decode_json(records: DataFrame, value: Column, values: Values) -> DataFrame:
    """Add `row` and `reason` to records whose JSON text is `value`."""
    text = value.cast("string")
    columns = [StructField(one.name, read_as(one.dataType)) for one in values.columns]
    parsed_schema = StructType([*columns, StructField(_CORRUPT, StringType())])
    options = {**READ_OPTIONS, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    # Spark would take the first of several objects in an array, and nothing for the text `null`
    parsed = records.withColumn("parsed", F.from_json(text, parsed_schema, options)).withColumn(
        "listed", F.from_json(listed(text), f"array<{FIELDS}>")
    )
    told, found = F.get(F.col("listed"), F.lit(0)), F.col("parsed")
    kept = {one.name: kept_as(found[one.name], one.dataType) for one in values.columns}
    changed = {
        one.name: is_changed(told[one.name], found[one.name], one.dataType, text)
        for one in values.columns
    }
    wrong = _names(
        (name, told[name].isNotNull() & (column.isNull() | changed[name]))
        for name, column in kept.items()
    )
    missing = _names(
        (one.name, kept[one.name].isNull()) for one in values.columns if not one.nullable
    )
    reason = (
        F.when(value.isNull(), None)
        .when(~F.is_valid_utf8(text), F.lit("the value is not UTF-8 text"))
        .when(~begins_object(text), F.lit("the value is not a JSON object"))
        .when(~is_whole(F.col("listed"), text), F.lit("the value is not one JSON object"))
        .when(wrong != "", F.concat(F.lit("does not fit its column: "), wrong))
        .when(found[_CORRUPT].isNotNull(), F.lit("a part does not fit its column"))
        .when(missing != "", F.concat(F.lit("is missing: "), missing))
    )
    if not values.ignore_unknown:
        unknown = F.array_distinct(unknown_paths(told, values.columns))
        names = F.array_join(F.sort_array(unknown), ", ")
        reason = reason.when(F.size(unknown) > 0, F.concat(F.lit("has no column: "), names))
    row = F.struct(*(column.alias(name) for name, column in kept.items()))
    return parsed.withColumn("row", row).withColumn("reason", reason)


def _decode_registered(
    records: DataFrame, values: Values, registered: Mapping[int, str | None]
) -> DataFrame:
    """Add `row` and `reason` to records that begin with the id of a schema."""
    json_ids = [number for number, avro in registered.items() if avro is None]
    is_json = schema_id().isin(json_ids)
    decoded = _decode_json(records, F.when(is_json, body()), values)
    reason = (
        F.when(F.col("value").isNull(), None)
        .when(schema_id().isNull(), F.lit("the value does not begin with the id of a schema"))
        .when(is_json, F.col("reason"))
    )
    row = F.when(F.col("value").isNull() | is_json, F.col("row"))
    for number, avro in sorted(registered.items()):
        if avro is None:
            continue
        mine = schema_id() == number
        name = f"avro_{number}"
        decoded = decoded.withColumn(
            name, F.when(mine, from_avro(body(), avro, {"mode": "PERMISSIVE"}))
        )
        writer = decoded.schema[name].dataType
        assert isinstance(writer, StructType), "checked when the schema came from the registry"
        row = row.when(mine, _in_columns(F.col(name), writer, values.columns))
        reason = reason.when(mine, _reason_of_avro(F.col(name), avro, writer, values))
    unknown = F.concat(F.lit("no schema of this topic has the id "), schema_id().cast("string"))
    reason = reason.when(~schema_id().isin(list(registered)), unknown)
    return decoded.withColumn("row", row).withColumn("reason", reason)


def _reason_of_avro(record: Column, avro: str, writer: StructType, values: Values) -> Column:
    broken = F.lit(True)
    for one in writer:
        broken = broken & record[one.name].isNull()
    # a broken value comes out as nulls, as a real record of nulls does
    nulls = _record_of_nulls(avro)
    if nulls is not None:
        broken = broken & (F.hex(body()) != nulls.hex().upper())
    reason = F.when(broken, F.lit("the value is not of the Avro schema that it names"))
    for column in values.columns:
        there = column.name in writer.names
        told = record[column.name] if there else F.lit(None)
        if not column.nullable:
            reason = reason.when(told.isNull(), F.lit(f"is missing: {column.name}"))
        if there and not _widens(writer[column.name].dataType, column.dataType):
            reason = reason.when(told.isNotNull(), F.lit(f"does not fit its column: {column.name}"))
    if not values.ignore_unknown:
        for one in writer:
            if one.name not in values.columns.names:
                told = record[one.name].isNotNull()
                reason = reason.when(told, F.lit(f"has no column: {one.name}"))
    return reason


def _record_of_nulls(avro: str) -> bytes | None:
    """Return what a record whose fields are all null is in Avro; None if one cannot be null."""
    encoded = bytearray()
    for one in json.loads(avro)["fields"]:
        kind = one["type"]
        if isinstance(kind, list) and "null" in kind:
            encoded.append(2 * kind.index("null"))  # zigzag; unions have a few branches
        elif kind != "null":
            return None
    return bytes(encoded)


def _in_columns(record: Column, writer: StructType, columns: StructType) -> Column:
    fields = []
    for column in columns:
        there = column.name in writer.names
        fits = there and _widens(writer[column.name].dataType, column.dataType)
        source = record[column.name] if fits else F.lit(None)
        fields.append(source.cast(column.dataType).alias(column.name))
    return F.struct(*fields)


_WIDENINGS = {
    ("int", "bigint"),
    ("int", "double"),
    ("float", "double"),
}


def _widens(given: DataType, wanted: DataType) -> bool:
    """Return whether every value of one type is one of the other."""
    names = (given.simpleString(), wanted.simpleString())
    return names[0] == names[1] or names in _WIDENINGS


def _names(conditions: Iterable[tuple[str, Column]]) -> Column:
    """Return the names whose condition holds, joined; empty for none."""
    return F.concat_ws(", ", F.lit(None), *(F.when(holds, name) for name, holds in conditions))
