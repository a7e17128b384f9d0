"""What Spark's JSON reader would change on its way into a column: decimals and times.

It rounds a number to the scale of a decimal, and takes any whole number for seconds since 1970: of
milliseconds it makes the year 58,000, and of microseconds any time at all. So decimals are read
wider than their columns are, and kept if they are the same in both; a number is a time if it is in
the years that have four digits.

What is wider has 38 digits, too, so fewer are left for fractions the more a column has. For a
column of decimals itself the number that is told is compared as well, as a double.
"""

from collections.abc import Callable
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    TimestampType,
)

from spark.tables.unknown import FIELDS

DIGITS_COUNT: Final = 38
"""Of a decimal, at most."""

FIRST_S: Final = -62_135_596_800
LAST_S: Final = 253_402_300_799
"""Seconds since 1970 of the years 1 to 9999."""


def read_as(kind: DataType) -> DataType:
    """Return the type that JSON is read as for a column of this type."""
    if isinstance(kind, DecimalType):
        return DecimalType(DIGITS_COUNT, DIGITS_COUNT - (kind.precision - kind.scale))
    return _with_nulls(kind, read_as)


def kept_as(read: Column, kind: DataType) -> Column:
    """Return what was read as its column's type; what it has no room for is null."""
    return read.try_cast(_nullable(kind)) if _has(kind, DecimalType) else read


def is_changed(told: Column, read: Column, kind: DataType) -> Column:
    """Return whether a column would have another number or time than the one that is told.

    Args:
        told: the field's text, as a map of FIELDS has it.
        read: the field, of the type `read_as`.
        kind: of the column.
    """
    changed = F.lit(False)
    if _has(kind, DecimalType):
        again = kept_as(read, kind).cast(read_as(kind))
        # as text, for maps cannot be compared
        first, second = (F.to_json(F.struct(one.alias("it"))) for one in (read, again))
        changed = first != second
    if isinstance(kind, DecimalType):
        rounded = told.try_cast("double") != kept_as(read, kind).cast("double")
        changed = changed | F.coalesce(rounded, F.lit(False))
    if _has(kind, TimestampType):
        changed = changed | _is_no_time(told, kind)
    return changed


def _is_no_time(text: Column, kind: DataType) -> Column:
    """Return whether a number is told for a time, and is none; never null."""
    match kind:
        case TimestampType():
            number = text.try_cast("double")
            found = ~number.between(FIRST_S, LAST_S)
        case ArrayType():
            inner = kind.elementType
            found = F.exists(
                F.from_json(text, "array<string>"), lambda one: _is_no_time(one, inner)
            )
        case MapType():
            values, inner = F.map_values(F.from_json(text, FIELDS)), kind.valueType
            found = F.exists(values, lambda one: _is_no_time(one, inner))
        case StructType():
            fields = F.from_json(text, FIELDS)
            times = [one for one in kind if _has(one.dataType, TimestampType)]
            each = (_is_no_time(fields[one.name], one.dataType) for one in times)
            found = reduce(Column.__or__, each)
        case _:
            raise AssertionError(f"no time in {kind}")
    return F.coalesce(found, F.lit(False))


def _nullable(kind: DataType) -> DataType:
    """Return the type with nulls allowed inside of it: JSON is read so, and no cast undoes that."""
    return _with_nulls(kind, _nullable)


def _with_nulls(kind: DataType, inside: Callable[[DataType], DataType]) -> DataType:
    match kind:
        case ArrayType():
            return ArrayType(inside(kind.elementType))
        case MapType():
            return MapType(kind.keyType, inside(kind.valueType))
        case StructType():
            return StructType([StructField(one.name, inside(one.dataType)) for one in kind])
        case _:
            return kind


def _has(kind: DataType, wanted: type[DataType]) -> bool:
    """Return whether a type is another one, or has it inside; keys of maps are text in JSON."""
    match kind:
        case ArrayType():
            return _has(kind.elementType, wanted)
        case MapType():
            return _has(kind.valueType, wanted)
        case StructType():
            return any(_has(one.dataType, wanted) for one in kind)
        case _:
            return isinstance(kind, wanted)
