"""Fields that values have and a table has not: what can become a column of it, and of what type.

Compatible is a new field with a plain name: it becomes a nullable column, and rows from before are
null there. Everything else (a field that changed its type, a new one inside of an object or array
that is a column, a name that differs from another in case only, a name that tables cannot have,
objects in objects in objects without an end) is left to the dead letters, so that nothing stalls.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from spark.tables.unknown import FIELDS, begins_object, unknown_fields

SHAPES_COUNT: Final = 1_000
"""Values with a new field are told apart by names and types of their fields: so many are kept."""

COLUMNS_COUNT: Final = 1_000
"""More columns than this a table does not get, fields of objects inside counted too.

Keys of a map are no fields, and every object of a table costs each record a look.
"""

LEVELS_COUNT: Final = 64
"""A value of more levels gives no columns: JSON may have 1,000, a type of which no stack bears."""

NUMBER_LENGTH: Final = 1_000
NAME_LENGTH: Final = 25_000
"""Spark's JSON reader ends at a longer number, or a name of more than 50,000 units of UTF-16."""

SCHEMA: Final = "value string"

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def new_shapes(records: DataFrame, columns: StructType, value: Column) -> DataFrame:
    """Return one value of each shape that has a field without a column, as text.

    Args:
        records: those whose value is no JSON object are left out.
        columns: that are there.
        value: JSON of a record, binary; null where there is none.
    """
    text = value.cast("string")
    unknown = unknown_fields(F.from_json(text, FIELDS), columns)
    objects = records.where(F.is_valid_utf8(text) & begins_object(text))
    shape = F.schema_of_variant(F.try_parse_json(text))
    grouped = objects.where(F.size(unknown) > 0).groupBy(shape.alias("shape"))
    return grouped.agg(F.min(text).alias("value")).limit(SHAPES_COUNT).select("value")


def infer(session: SparkSession, texts: Iterable[str]) -> StructType:
    """Return the columns that JSON objects have together; fields that are always null have none.

    A field that is a number here and text there becomes text, a whole number bigint.

    Args:
        session: its JSON reader decides.
        texts: those that are no JSON objects, have more than LEVELS_COUNT levels, or longer numbers
            or names than the reader takes, are left out.
    """
    values = ",".join(text for text in texts if _is_object(text))
    if not values:
        return StructType()
    schema = session.range(1).select(F.schema_of_json(F.lit(f"[{values}]"))).head()
    assert schema is not None
    kind = session.createDataFrame([], f"value {schema[0]}").schema["value"].dataType
    assert isinstance(kind, ArrayType)
    assert isinstance(kind.elementType, StructType)
    return StructType([one for one in kind.elementType if _has_type(one.dataType)])


def additions(columns: StructType, found: Iterable[StructField]) -> StructType:
    """Return which of the fields found become columns beside those that are there."""
    taken = {name.lower() for name in columns.names}
    count = _names_count(columns)
    added: list[StructField] = []
    for one in found:
        fits = _PLAIN.fullmatch(one.name) and one.name.lower() not in taken
        if not fits or not _nested_plain(one.dataType):
            continue
        names = 1 + _names_count(one.dataType)
        if count + names <= COLUMNS_COUNT:
            count += names
            taken.add(one.name.lower())
            added.append(StructField(one.name, one.dataType))
    return StructType(added)


def columns_of_registered(schemas: Mapping[int, StructType]) -> StructType:
    """Return the columns of all schemas of a topic; of a name with several types the first."""
    columns = StructType()
    for _, schema in sorted(schemas.items()):
        columns = StructType([*columns, *additions(columns, schema)])
    return columns


def _is_object(text: str) -> bool:
    """Return whether a text is one JSON object that columns can be found out from."""
    try:
        value = json.loads(
            text, parse_int=_check_number, parse_float=_check_number, object_pairs_hook=_check_names
        )
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and _is_shallow(value)


def _check_number(text: str) -> str:
    if len(text) > NUMBER_LENGTH:
        raise ValueError(f"a number of {len(text)} characters")
    return text


def _check_names(fields: list[tuple[str, object]]) -> dict[str, object]:
    for name, _ in fields:
        if len(name) > NAME_LENGTH:
            raise ValueError(f"a name of {len(name)} characters")
    return dict(fields)


def _is_shallow(value: object) -> bool:
    level = [value]
    for _ in range(LEVELS_COUNT + 1):
        if not level:
            return True
        level = [inner for outer in level for inner in _inside(outer)]
    return not level


def _inside(value: object) -> Iterable[object]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
        case _:
            return ()


def _has_type(kind: DataType) -> bool:
    """Return whether a type is known all the way down: null and {} and [] have none."""
    match kind:
        case NullType():
            return False
        case ArrayType():
            return _has_type(kind.elementType)
        case StructType():
            return bool(kind.fields) and all(_has_type(one.dataType) for one in kind)
        case _:
            return True


def _nested_plain(kind: DataType) -> bool:
    """Return whether names inside of a type are plain and differ in more than case."""
    match kind:
        case ArrayType():
            return _nested_plain(kind.elementType)
        case StructType():
            names = [one.name for one in kind]
            plain = all(_PLAIN.fullmatch(name) for name in names)
            apart = len({name.lower() for name in names}) == len(names)
            return plain and apart and all(_nested_plain(one.dataType) for one in kind)
        case _:
            return True


def _names_count(kind: DataType) -> int:
    """Return how many fields a type has, those inside of it included."""
    match kind:
        case ArrayType():
            return _names_count(kind.elementType)
        case MapType():
            return _names_count(kind.valueType)
        case StructType():
            return sum(1 + _names_count(one.dataType) for one in kind)
        case _:
            return 0
