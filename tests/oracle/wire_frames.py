"""Requests from dictionaries, in any version, encoded by the generic codec.

A field that a version lacks is left out, so one dictionary serves all versions; a field that is
not given gets the protocol's default, else zero, nothing or null. A name that no version has is a
mistake of the corpus, and raises.
"""

import dataclasses
import datetime as dt
import functools
import typing
from collections.abc import Mapping
from typing import Any, Final

from kio.index import UnknownEntity, load_request_schema

from tests.oracle.wire_values import NULL
from tests.support.wire import encode_frame

VERSIONS: Final = range(20)
ZEROS: Final[Mapping[str, Any]] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "uuid": None,
    "timedelta_i32": dt.timedelta(0),
    "timedelta_i64": dt.timedelta(0),
    "float64": 0.0,
}


def frame_of(
    api_key: int, version: int, values: Mapping[str, Any], correlation_id: int
) -> tuple[bytes, Any]:
    """Return a request's frame, size included, and the request.

    At most one of `values` is NULL where the protocol allows none. It is written over the length
    of an empty string or array, which is where the frame differs from one with one element.
    """
    if unknown := _names(values) - _all_names(api_key):
        raise LookupError(f"API {api_key} has no {sorted(unknown)} in any version")
    kind = load_request_schema(api_key, version)
    builder = _Builder()
    request = builder.entity(kind, values)
    frame = encode_frame(request, correlation_id)
    if builder.null_bytes == 0:
        return frame, request
    longer = encode_frame(_Builder(null_elements=1).entity(kind, values), correlation_id)
    length_end = 1 + next(at for at in range(4, len(frame)) if frame[at] != longer[at])
    # a compact length is one more than it says, and 0 is null; any other one is -1 for null
    null = b"\0" if kind.__flexible__ else b"\xff" * builder.null_bytes
    return frame[: length_end - len(null)] + null + frame[length_end:], request


class _Builder:
    """Makes entities.

    Attributes:
        null_bytes: how many bytes the length has that becomes null; 0 if there is no NULL.
    """

    def __init__(self, null_elements: int = 0) -> None:
        self._null_elements = null_elements
        self.null_bytes = 0

    def entity(self, kind: Any, values: Mapping[str, Any]) -> Any:
        made = {}
        for one in dataclasses.fields(kind):
            if one.name in values:
                made[one.name] = self._value(one, values[one.name])
            elif one.default is dataclasses.MISSING:
                made[one.name] = self._zero(one)
        return kind(**made)

    def _value(self, one: "dataclasses.Field[Any]", value: Any) -> Any:
        nested = nested_kind(one.type)
        if value is NULL:
            return self._null(one)
        if value is None:
            return None
        if nested is not None and isinstance(value, Mapping):
            return self.entity(nested, value)
        if nested is not None:
            return tuple(self.entity(nested, element) for element in value)
        if one.metadata["kafka_type"].startswith("timedelta"):
            return dt.timedelta(milliseconds=value)
        return value

    def _zero(self, one: "dataclasses.Field[Any]") -> Any:
        if is_array(one.type):
            return ()
        if type(None) in typing.get_args(one.type):
            return None
        return self._element(one)

    def _element(self, one: "dataclasses.Field[Any]") -> Any:
        nested = nested_kind(one.type)
        return self.entity(nested, {}) if nested else ZEROS.get(one.metadata["kafka_type"], 0)

    def _null(self, one: "dataclasses.Field[Any]") -> Any:
        array = is_array(one.type)
        self.null_bytes = 2 if not array and one.metadata["kafka_type"] == "string" else 4
        if array:
            return (self._element(one),) * self._null_elements
        text = "a" * self._null_elements
        return text if one.metadata["kafka_type"] == "string" else text.encode()


def nested_kind(annotation: Any) -> Any:
    """Return the entity inside an annotation: itself, optional, or a tuple of it; else None."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    kinds = (nested_kind(argument) for argument in typing.get_args(annotation))
    return next((kind for kind in kinds if kind is not None), None)


def is_array(annotation: Any) -> bool:
    return typing.get_origin(annotation) is tuple or any(
        is_array(argument) for argument in typing.get_args(annotation)
    )


@functools.cache
def _all_names(api_key: int) -> frozenset[str]:
    names: set[str] = set()
    for version in VERSIONS:
        try:
            names |= _kind_names(load_request_schema(api_key, version))
        except UnknownEntity:  # this version does not exist
            continue
    return frozenset(names)


def _kind_names(kind: Any) -> set[str]:
    names = set()
    for one in dataclasses.fields(kind):
        names.add(one.name)
        nested = nested_kind(one.type)
        if nested is not None:
            names |= _kind_names(nested)
    return names


def _names(values: Any) -> set[str]:
    if isinstance(values, Mapping):
        return set(values).union(*map(_names, values.values()))
    if isinstance(values, tuple):
        return set[str]().union(*map(_names, values))
    return set()
