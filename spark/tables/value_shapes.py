"""What tells JSON objects apart by the names and types of their fields, at any depth.

For wide values, which Spark's own functions take ten times as long for as Python's parser. They are
told apart as `schema_of_variant` does it, but for numbers: whole ones are one type here, the others
another one.
"""

import json
from collections.abc import Collection
from hashlib import md5
from typing import Final

_WHOLE: Final = "whole"
_NUMBER: Final = "number"
_ANY: Final = "any"
_SIMPLE: Final[dict[type, str]] = {str: "text", bool: "bool", float: _NUMBER}
_SCALARS: Final = {**_SIMPLE, int: _WHOLE}
_LONG: Final = range(-(2**63), 2**63)
"""What type other whole numbers have depends on how many digits they have."""

Shape = str | list["Shape | None"] | dict[str, "Shape | None"] | None
"""Of an array, a list with that of its elements, if they have one; of null, None."""


def has_unknown(value: dict[str, object], known: Collection[str]) -> bool:
    """Return whether a field that is not null has a name that is not known."""
    return any(value[name] is not None for name in value.keys() - known)


def parsed(text: str | bytes) -> dict[str, object] | None:
    """Return a JSON object; None if it is none, or one that Python cannot read."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def shape_key(value: dict[str, object]) -> bytes:
    """Return what is the same for objects of one shape; of too many levels, one for all."""
    try:
        text = json.dumps(_merged(None, value), sort_keys=True)
    except RecursionError:
        text = ""
    return md5(text.encode(), usedforsecurity=False).digest()


def _merged(shape: Shape, value: object) -> Shape:
    """Return what a value has in common with a shape, which is changed."""
    if isinstance(value, dict):
        return _merged_object({} if shape is None else shape, value)
    if isinstance(value, list):
        return _merged_array([None] if shape is None else shape, value)
    return shape if value is None else _wider(shape, _scalar(value))


def _merged_object(shape: Shape, value: dict[str, object]) -> Shape:
    if not isinstance(shape, dict):
        return _ANY
    known = shape.get
    for name, inner in value.items():
        before, simple = known(name), _SIMPLE.get(type(inner))
        if simple is None or not (before is None or before == simple):
            shape[name] = _merged(before, inner)
        else:
            shape[name] = simple
    return shape


def _merged_array(shape: Shape, values: list[object]) -> Shape:
    if not isinstance(shape, list):
        return _ANY
    kinds = set(map(type, values))
    if kinds == {int}:  # there may be a million of them
        values = [min(values), max(values)]  # type: ignore[type-var]
    elif kinds <= _SCALARS.keys():
        values = [next(one for one in values if type(one) is kind) for kind in kinds]
    for one in values:
        shape[0] = _merged(shape[0], one)
    return shape


def _scalar(value: object) -> str:
    if type(value) is int and value not in _LONG:
        return f"{_WHOLE}{len(str(abs(value)))}"
    return _SCALARS[type(value)]


def _wider(shape: Shape, other: str) -> Shape:
    if shape is None or shape == other:
        return other
    if not isinstance(shape, str):
        return _ANY
    kinds = {shape.rstrip("0123456789"), other.rstrip("0123456789")}
    if kinds == {_WHOLE}:
        return max(shape, other, key=lambda kind: int(kind.removeprefix(_WHOLE) or 0))
    return _NUMBER if kinds == {_WHOLE, _NUMBER} else _ANY
