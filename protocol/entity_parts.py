"""A large request, decoded part by part: whoever does it may do something else between them.

An entity that is too large to be decoded at once is taken apart into its arrays of entities and of
texts, which are decoded one after the other, and the rest, which is decoded as if these arrays were
empty. So protocol/guard.py proves each part, as it does a whole request.
"""

from collections.abc import Generator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from types import NoneType
from typing import Any, Final, cast, get_args, get_origin

from kio.static.protocol import Entity

from protocol.errors import RequestTooLarge
from protocol.guard import decode_walked
from protocol.shapes import Shape, entity_shape, field_shape, tagged_step
from protocol.walk import (
    MAX_ELEMENTS,
    OBJECT_BYTES,
    POINTER_BYTES,
    Buffer,
    LengthReader,
    Step,
    Walk,
    bytes_step,
    length_reader,
)

AT_ONCE: Final = 1_000
"""Elements that are decoded without a break, in about five milliseconds."""

Decoding = Generator[None, None, tuple[Any, int]]
"""Yields now and then; returns an entity and the offset where it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Array:
    """A field that is an array of entities, or of texts.

    Attributes:
        element_type: None for texts.
        read_text: reads the length of one.
    """

    name: str
    element_type: type[Entity] | None
    element: Shape
    read_length: LengthReader
    read_text: LengthReader
    empty: bytes


def decode_parts(
    entity_type: type[Entity],
    body: Buffer,
    offset: int,
    *,
    largest_bytes: int | None = None,
    at_once: int = AT_ONCE,
) -> Decoding:
    """Return what decodes a request as decode_request does, but with breaks.

    Args:
        entity_type: the request's.
        body: where it is, which must not change meanwhile.
        offset: where it starts.
        largest_bytes: memory that it may take when it is decoded, with any number of elements in
            arrays of entities and of texts; None for the limits of decode_request.
        at_once: elements that are decoded without a break.

    Raises:
        RequestTooLarge: it has more than that.
        MalformedRequest: naming the field.
    """
    walk = Walk(body=body, end=len(body))
    if largest_bytes is not None:
        walk.elements_left = len(body)
        walk.memory_left = max(walk.memory_left, largest_bytes)
    return _Parts(walk, at_once).entity(entity_type, offset)


class _Parts:
    """One request, as far as it is decoded.

    Args:
        walk: over all of it, with what its limits leave.
    """

    def __init__(self, walk: Walk, at_once: int) -> None:
        self._walk = walk
        self._at_once = self._before_break = at_once

    def entity(self, entity_type: type[Entity], offset: int) -> Decoding:
        walk = self._walk
        left = walk.elements_left, walk.memory_left
        walk.elements_left = most = min(self._at_once, left[0])
        try:
            decoded = decode_walked(entity_type, walk, offset)
        except RequestTooLarge:
            walk.forget_edits()
            walk.elements_left, walk.memory_left = left
            self._before_break -= most + 1
        else:
            used = most - walk.elements_left
            walk.elements_left = left[0] - used
            self._before_break -= used + 1
            walk.forget_edits()
            yield from self._break()
            return decoded
        yield from self._break()
        return (yield from self._large(entity_type, offset))

    def _large(self, entity_type: type[Entity], offset: int) -> Decoding:
        walk, body = self._walk, self._walk.body
        memory_left = walk.memory_left
        arrays: dict[str, tuple[Any, ...]] = {}
        rest = bytearray()
        for part in _parts(entity_type):
            start = offset
            if isinstance(part, _Array):
                count, offset = part.read_length(walk, start)
                if count > 0:
                    rest += part.empty
                    arrays[part.name], offset = yield from self._array(part, count, offset)
                    continue
            else:
                offset = self._step(part, start)
            rest += body[start:offset]
        walk.count(0, 0, offset, entity_type.__name__)  # the last texts were not checked yet
        of_rest = Walk(body=rest, end=len(rest))
        of_rest.memory_left = max(of_rest.memory_left, memory_left)
        entity = decode_walked(entity_type, of_rest, 0)[0]
        return replace(cast("Any", entity), **arrays), offset

    def _array(
        self, array: _Array, count: int, offset: int
    ) -> Generator[None, None, tuple[tuple[Any, ...], int]]:
        element, walk = array.element, self._walk
        walk.memory_left -= OBJECT_BYTES
        walk.count(count, element.size, offset, element.name, element.memory + POINTER_BYTES)
        elements = []
        for _ in range(count):
            if array.element_type is None:
                decoded, offset = self._text(array, offset)
                yield from self._break()
            else:
                decoded, offset = yield from self.entity(array.element_type, offset)
            elements.append(decoded)
        return tuple(elements), offset

    def _text(self, array: _Array, offset: int) -> tuple[str, int]:
        walk = self._walk
        _, start = array.read_text(walk, offset)
        end = array.element.step(walk, offset)
        walk.count(0, 0, end, array.element.name)
        self._before_break -= 1
        return str(walk.body[start:end], "utf-8"), end

    def _step(self, step: Step, offset: int) -> int:
        """Return where a part ends that is decoded with the rest, of MAX_ELEMENTS at most."""
        walk = self._walk
        left = walk.elements_left
        walk.elements_left = most = min(MAX_ELEMENTS, left)
        end = step(walk, offset)
        walk.elements_left = left - (most - walk.elements_left)
        walk.forget_edits()
        return end

    def _break(self) -> Generator[None]:
        if self._before_break <= 0:
            self._before_break = self._at_once
            yield


@cache
def _parts(entity_type: type[Entity]) -> tuple[_Array | Step, ...]:
    """Return an entity's parts in order: arrays of entities, and steps over all else."""
    flexible = entity_type.__flexible__
    parts: list[_Array | Step] = []
    tagged: dict[int, Shape] = {}
    for each in fields(cast("Any", entity_type)):
        name = f"{entity_type.__name__}.{each.name}"
        shape = field_shape(each, name, flexible=flexible)
        element = _element_type(each.type)
        is_text = element is not None and each.metadata.get("kafka_type") == "string"
        if "tag" in each.metadata:
            tagged[each.metadata["tag"]] = shape
        elif is_dataclass(element) or is_text:
            element_type = None if is_text else cast("type[Entity]", element)
            parts.append(
                _Array(
                    name=each.name,
                    element_type=element_type,
                    element=_text_shape(name, flexible=flexible)
                    if element_type is None
                    else entity_shape(element_type),
                    read_length=length_reader(name, flexible=flexible, size=4),
                    read_text=length_reader(name, flexible=flexible, size=2),
                    empty=b"\x01" if flexible else bytes(4),
                )
            )
        else:
            parts.append(shape.step)
    if flexible:
        parts.append(tagged_step(tagged, entity_type.__name__))
    return tuple(parts)


def _text_shape(name: str, *, flexible: bool) -> Shape:
    read_length = length_reader(name, flexible=flexible, size=2)
    step = bytes_step(read_length, name, nullable=False, is_text=True)
    return Shape(name=name, step=step, size=1 if flexible else 2)


def _element_type(wanted: Any) -> Any:
    """Return what an array is made of; None for all other types."""
    if get_origin(wanted) is not tuple:
        arrays = [one for one in get_args(wanted) if get_origin(one) is tuple]
        if NoneType not in get_args(wanted) or not arrays:
            return None
        (wanted,) = arrays
    return get_args(wanted)[0]
