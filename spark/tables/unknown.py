"""Fields that values have and columns have not, at the top and inside of objects, arrays, maps."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

FIELDS: Final = "map<string,string>"
"""What from_json makes of any object: values that are no text are JSON."""

_NAMES: Final = "array<string>"
_SPACE: Final = " \t\n\r"  # that JSON may begin with


def begins_object(text: Column) -> Column:
    """Return whether a text is an object, if it is JSON."""
    return F.ltrim(text, F.lit(_SPACE)).startswith("{")


def unknown_fields(fields: Column, columns: StructType) -> Column:
    """Return the names in a map of fields that are not null and have no column; empty, not null."""
    known = F.array(*(F.lit(name) for name in columns.names)).cast(_NAMES)
    told = F.map_keys(F.map_filter(fields, lambda _, text: text.isNotNull()))
    return F.coalesce(F.array_except(told, known), F.array().cast(_NAMES))


def unknown_paths(fields: Column, columns: StructType, prefix: str = "") -> Column:
    """Return the same of objects inside of fields, too, each with the names that lead to it.

    Args:
        fields: a map, see FIELDS.
        columns: names and types.
        prefix: of each path.
    """
    here = F.transform(
        unknown_fields(fields, columns),
        lambda name: F.concat(F.lit(prefix), F.when(name == "", '""').otherwise(name)),
    )
    inside = (
        _unknown_inside(fields[one.name], one.dataType, f"{prefix}{one.name}")
        for one in columns
        if _has_objects(one.dataType)
    )
    return F.flatten(F.array(here, *inside))


def _unknown_inside(text: Column, kind: DataType, path: str) -> Column:
    if isinstance(kind, StructType):
        return unknown_paths(F.from_json(text, FIELDS), kind, f"{path}.")
    if isinstance(kind, MapType):
        inner, elements = kind.valueType, F.map_values(F.from_json(text, FIELDS))
    else:
        assert isinstance(kind, ArrayType), "has objects"
        inner, elements = kind.elementType, F.from_json(text, "array<string>")
    of_elements = F.transform(elements, lambda element: _unknown_inside(element, inner, path))
    return F.coalesce(F.flatten(of_elements), F.array().cast(_NAMES))


def _has_objects(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_objects(kind.elementType)
    if isinstance(kind, MapType):
        return _has_objects(kind.valueType)
    return isinstance(kind, StructType)
