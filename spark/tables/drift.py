"""Fields that values have and a table has not: what can become a column of it, and of what type.

Compatible is a new field with a plain name: it becomes a nullable column, and rows from before are
null there. Everything else (a field that changed its type, a new one inside of an object or array
that is a column, a name that differs from another in case only, a name that tables cannot have,
objects in objects in objects without an end) is left to the dead letters, so that nothing stalls.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from spark.tables.outlines import outline
from spark.tables.unknown import FIELDS, begins_object, unknown_fields
from spark.tables.wide_values import shortest_wide

SHAPES_COUNT: Final = 1_000
"""Values with a new field are told apart by names and types of their fields: so many are kept."""

COLUMNS_COUNT: Final = 1_000
"""More columns than this a table does not get, fields of objects inside counted too.

Keys of a map are no fields, and every object of a table costs each record a look.
"""

SHAPES_BYTES: Final = 16_000_000
WIDE_BYTES: Final = SHAPES_BYTES // SHAPES_COUNT
"""Values kept are so long together at most: the longest ones are left out."""

OUTLINES_LENGTH: Final = 4_000_000
"""Characters of all outlines that columns are found out from at once: a few seconds of work."""

SCHEMA: Final = "value string"

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def new_shapes(records: DataFrame, columns: StructType, value: Column) -> list[str]:
    """Read the shortest value of each shape that has a field without a column.

    Args:
        records: those whose value is no JSON object are left out.
        columns: that are there.
        value: JSON of a record, binary; null where there is none.
    """
    text = value.cast("string")
    size = F.octet_length(text)
    objects = records.where(F.is_valid_utf8(text) & begins_object(text))
    is_wide = size > WIDE_BYTES
    unknown = unknown_fields(F.from_json(text, FIELDS), columns)
    shape = F.schema_of_variant(F.try_parse_json(text))
    grouped = objects.where(is_wide | (F.size(unknown) > 0)).groupBy(
        is_wide.alias("is_wide"), F.when(~is_wide, shape).alias("shape")
    )
    short = F.when(~is_wide, F.struct(size.alias("size"), text.alias("text")))
    found = grouped.agg(F.min(short)["text"].alias("text")).limit(SHAPES_COUNT).collect()
    texts = [row["text"] for row in found if not row["is_wide"]]
    if any(row["is_wide"] for row in found):
        wide = objects.where(is_wide).select(text.alias("text"))
        texts += shortest_wide(wide, columns.names, texts, SHAPES_COUNT, SHAPES_BYTES)
    return texts


def infer(session: SparkSession, texts: Iterable[str]) -> StructType:
    """Return the columns that JSON objects have together; fields that are always null have none.

    A field that is a number here and text there becomes text, a whole number bigint.

    Args:
        session: its JSON reader decides.
        texts: those that have no outline are left out, and those whose outlines would be more
            than OUTLINES_LENGTH together.
    """
    values = ",".join(_outlines(texts))
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


def _outlines(texts: Iterable[str]) -> Iterator[str]:
    """Give the outlines that are short enough together."""
    left = OUTLINES_LENGTH
    for text in texts:
        found = outline(text)
        if found is not None and len(found) <= left:
            left -= len(found)
            yield found


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
