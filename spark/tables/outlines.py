"""What columns are found out from: the names of a JSON object and the types of its values.

Values themselves may be a megabyte each, and what tells their types must fit into a plan.
"""

import json
from collections.abc import Iterable
from typing import Final

LEVELS_COUNT: Final = 64
"""A value of more levels gives no columns: JSON may have 1,000, a type of which no stack bears."""

NUMBER_LENGTH: Final = 1_000
NAME_LENGTH: Final = 25_000
"""Spark's JSON reader ends at a longer number, or a name of more than 50,000 units of UTF-16."""

_LONG_DIGITS: Final = 18
"""Whole numbers of more digits may not be bigint: what they are depends on their digits."""


class _Number(str):
    """A number as its JSON has it, or another one of its type."""

    __slots__ = ()


class _Fields(tuple[tuple[str, object], ...]):
    """The fields of an object, names that are there twice included."""

    __slots__ = ()


def outline(text: str) -> str | None:
    """Return a short JSON object whose fields have the names and types of those of another one.

    Args:
        text: gives None if it is no JSON object, has more than LEVELS_COUNT levels, or longer
            numbers or names than the reader takes.
    """
    try:
        value = json.loads(
            text,
            parse_int=_whole_number,
            parse_float=_number,
            parse_constant=_Number,
            object_pairs_hook=_fields,
        )
    except (ValueError, RecursionError):
        return None
    return _outline(value) if isinstance(value, _Fields) and _is_shallow(value) else None


def _whole_number(text: str) -> _Number:
    return _Number("1") if len(text) <= _LONG_DIGITS else _checked(text)


def _number(text: str) -> _Number:
    _checked(text)
    return _Number("0.5")


def _checked(text: str) -> _Number:
    if len(text) > NUMBER_LENGTH:
        raise ValueError(f"a number of {len(text)} characters")
    return _Number(text)


def _fields(fields: list[tuple[str, object]]) -> _Fields:
    for name, _ in fields:
        if len(name) > NAME_LENGTH:
            raise ValueError(f"a name of {len(name)} characters")
    return _Fields(fields)


def _is_shallow(value: object) -> bool:
    level = [value]
    for _ in range(LEVELS_COUNT + 1):
        if not level:
            return True
        level = [inner for outer in level for inner in _inside(outer)]
    return not level


def _inside(value: object) -> Iterable[object]:
    match value:
        case _Fields():
            return (inner for _, inner in value)
        case list():
            return value
        case _:
            return ()


def _outline(value: object) -> str:
    match value:
        case _Fields():
            named = (f"{json.dumps(name)}:{_outline(inner)}" for name, inner in value)
            return f"{{{','.join(dict.fromkeys(named))}}}"
        case list():
            return f"[{','.join(dict.fromkeys(map(_outline, value)))}]"
        case _Number():
            return value
        case str():
            return '"x"' if value else '""'  # the reader does not take an empty one for text
        case _:
            return json.dumps(value)
