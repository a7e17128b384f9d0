"""What Spark's JSON reader would change on its way into a column: numbers, dates and times.

It rounds a number to the scale of a decimal, drops what a tinyint has no bits for, and makes what
a double or a float has no room for infinite. It takes any whole number for seconds since 1970: of
milliseconds it makes the year 58,000, and of microseconds any time at all; and of a text of digits
days since 1970, or a year of six of them. So decimals and tinyints are read wider than their
columns are, and kept if they are the same in both; what is infinite has to be told so in the same
value; dates and times are those of the years that have four digits.

What is wider than a decimal has 38 digits, too, so fewer are left for fractions the more a column
has. For a column of decimals itself the number that is told is compared as well, as a double.
"""

from collections.abc import Callable
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    ShortType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark.tables.unknown import FIELDS

Kinds = tuple[type[DataType], ...]

DIGITS_COUNT: Final = 38
"""Of a decimal, at most."""
READ_OPTIONS: Final = {"enableDateTimeParsingFallback": "false"}
"""Of the reader: a text of digits is no date, as days since 1970."""

FIRST_S: Final = -62_135_596_800
LAST_S: Final = 253_402_300_799
"""Seconds since 1970 of the years 1 to 9999."""

_WIDENED: Final[Kinds] = (DecimalType, ByteType)
_DATED: Final[Kinds] = (DateType, TimestampType, TimestampNTZType)
_FLOATING: Final[Kinds] = (DoubleType, FloatType)
_NUMBERED: Final[Kinds] = (TimestampType,)
_INFINITY: Final = r"\b(INF|Infinity)\b"


def read_as(kind: DataType) -> DataType:
    """Return the type that JSON is read as for a column of this type."""
    if isinstance(kind, DecimalType):
        return DecimalType(DIGITS_COUNT, DIGITS_COUNT - (kind.precision - kind.scale))
    if isinstance(kind, ByteType):
        return ShortType()
    return _with_nulls(kind, read_as)


def kept_as(read: Column, kind: DataType) -> Column:
    """Return what was read as its column's type; what it has no room for is null."""
    return read.try_cast(_nullable(kind)) if _has(kind, _WIDENED) else read


def is_changed(told: Column, read: Column, kind: DataType, value: Column) -> Column:
    """Return whether a column would have another number or time than the one that is told.

    Args:
        told: the field's text, as a map of FIELDS has it.
        read: the field, of the type `read_as`.
        kind: of the column.
        value: the text of the object that has the field.
    """
    changed = F.lit(False)
    if _has(kind, _WIDENED):
        again = kept_as(read, kind).cast(read_as(kind))
        # as text, for maps cannot be compared
        first, second = (F.to_json(F.struct(one.alias("it"))) for one in (read, again))
        changed = first != second
    if isinstance(kind, DecimalType):
        rounded = told.try_cast("double") != kept_as(read, kind).cast("double")
        changed = changed | F.coalesce(rounded, F.lit(False))
    if _has(kind, _NUMBERED):
        changed = changed | _exists(told, kind, _NUMBERED, _is_no_time, F.from_json)
    if _has(kind, _DATED):
        changed = changed | _exists(read, kind, _DATED, _is_far, _as_it_is)
    if _has(kind, _FLOATING):
        # a field's text is the same for a number too large and for the word without quotes
        is_infinite = _exists(read, kind, _FLOATING, _is_infinite, _as_it_is)
        changed = changed | (is_infinite & ~value.rlike(_INFINITY))
    return changed


def _is_no_time(text: Column) -> Column:
    """Return whether a number is told for a time, and is none."""
    return ~text.try_cast("double").between(FIRST_S, LAST_S)


def _is_far(time: Column) -> Column:
    """Return whether a date or time is in no year of four digits."""
    return ~F.year(time).between(1, 9999)


def _is_infinite(number: Column) -> Column:
    return F.abs(number) == float("inf")


def _as_it_is(value: Column, _: str) -> Column:
    return value


def _exists(
    value: Column,
    kind: DataType,
    wanted: Kinds,
    is_wrong: Callable[[Column], Column],
    opened: Callable[[Column, str], Column],
) -> Column:
    """Return whether a value is wrong or has a wrong one inside; never null.

    Args:
        value: of a field.
        kind: of its column; it is or has one of `wanted`, which are those that may be wrong.
        wanted: see there.
        is_wrong: of a value that has nothing inside.
        opened: from a value to what is inside of it, by the type that its text would be read as.
    """
    match kind:
        case ArrayType():
            values, inner = opened(value, "array<string>"), kind.elementType
        case MapType():
            values, inner = F.map_values(opened(value, FIELDS)), kind.valueType
        case StructType():
            fields = opened(value, FIELDS)
            found = [
                _exists(fields[one.name], one.dataType, wanted, is_wrong, opened)
                for one in kind
                if _has(one.dataType, wanted)
            ]
            return reduce(Column.__or__, found)
        case _:
            return F.coalesce(is_wrong(value), F.lit(False))
    some = F.exists(values, lambda one: _exists(one, inner, wanted, is_wrong, opened))
    return F.coalesce(some, F.lit(False))


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


def _has(kind: DataType, wanted: Kinds) -> bool:
    """Return whether a type is one of others, or has it inside; keys of maps are text in JSON."""
    match kind:
        case ArrayType():
            return _has(kind.elementType, wanted)
        case MapType():
            return _has(kind.valueType, wanted)
        case StructType():
            return any(_has(one.dataType, wanted) for one in kind)
        case _:
            return isinstance(kind, wanted)
