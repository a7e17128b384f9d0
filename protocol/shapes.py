"""How each kio entity lies on the wire, compiled once into a walk that builds nothing.

The rules are kio's own, taken from its dataclasses: field order, `kafka_type` and `tag` metadata,
`tuple[...]` for arrays, `| None` for what may be null; `__flexible__` entities have compact lengths
and tagged fields (KIP-482). Nothing recurses deeper than the schema does. protocol/guard.py says
what a walk proves.
"""

from collections.abc import Iterator
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import groupby
from types import NoneType, UnionType
from typing import Any, Final, Union, cast, get_args, get_origin

from kio.static.protocol import Entity

from protocol.errors import MalformedRequest
from protocol.walk import (
    OBJECT_BYTES,
    POINTER_BYTES,
    Step,
    Walk,
    bytes_step,
    fixed_step,
    length_reader,
    span_step,
    unsigned_varint,
)

_SIZES: Final = {  # on the wire
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_MEMORY: Final = {"bool": 0, "error_code": 0, "datetime_i64": 64, "uuid": 144}  # as objects
_MEMORY_OF_NUMBER: Final = 32
_MEMORY_OF_ENTITY: Final = 32
_MEMORY_OF_FIELD: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How one field or entity lies on the wire.

    Attributes:
        size: bytes, at least.
        fixed: exactly `size` bytes, whatever they hold.
        null_tag: bytes that, as a tagged field, mean its absence; kio takes no null there.
        memory: bytes of its objects when it is decoded, without texts, bytes and array elements:
            those are counted as they come.
    """

    name: str
    step: Step
    size: int
    memory: int = 0
    fixed: bool = False
    null_tag: bytes | None = None


@cache
def entity_shape(entity_type: type[Entity]) -> Shape:
    name, flexible = entity_type.__name__, entity_type.__flexible__
    shapes: list[Shape] = []
    tagged: dict[int, Shape] = {}
    for each in fields(entity_type):
        # A header's client_id has the old form in every version, so that any broker can read it.
        compact = flexible and (name, each.name) != ("RequestHeader", "client_id")
        shape = field_shape(each, f"{name}.{each.name}", flexible=compact)
        if "tag" in each.metadata:
            tagged[each.metadata["tag"]] = shape
        else:
            shapes.append(shape)
    steps = tuple(_merged(shapes)) + ((tagged_step(tagged, name),) if flexible else ())

    def entity(walk: Walk, offset: int) -> int:
        for step in steps:
            offset = step(walk, offset)
        return offset

    return Shape(
        name=name,
        step=steps[0] if len(steps) == 1 else entity,
        size=sum(shape.size for shape in shapes) + flexible,
        memory=_MEMORY_OF_ENTITY
        + sum(shape.memory + _MEMORY_OF_FIELD for shape in (*shapes, *tagged.values())),
        fixed=not flexible and all(shape.fixed for shape in shapes),
    )


def _merged(shapes: list[Shape]) -> Iterator[Step]:
    """Yield the steps in order; neighbours of fixed size are one step."""
    for fixed, group in groupby(shapes, key=lambda shape: shape.fixed):
        members = list(group)
        if fixed:
            names = ", ".join(shape.name for shape in members)
            yield fixed_step(sum(shape.size for shape in members), names)
        else:
            yield from (shape.step for shape in members)


def field_shape(each: Field[Any], name: str, *, flexible: bool) -> Shape:
    wanted: Any = each.type
    nullable = get_origin(wanted) in {UnionType, Union}
    if nullable:
        (wanted,) = (part for part in get_args(wanted) if part is not NoneType)
    if get_origin(wanted) is tuple:
        element = _value_shape(get_args(wanted)[0], each, name, flexible=flexible, nullable=False)
        step = _array_step(element, name, flexible=flexible, nullable=nullable)
        shape = Shape(name=name, step=step, size=1 if flexible else 4)
    else:
        shape = _value_shape(wanted, each, name, flexible=flexible, nullable=nullable)
    if nullable and flexible and not shape.fixed and each.default is None:
        return replace(shape, name=name, null_tag=b"\0")
    return shape


def _value_shape(
    wanted: Any,
    each: Field[Any],
    name: str,
    *,
    flexible: bool,
    nullable: bool,
) -> Shape:
    """Return the shape of a field that is no array, or of an array's element."""
    if is_dataclass(wanted):
        entity = entity_shape(cast("type[Entity]", wanted))
        return _nullable_entity(entity, name) if nullable else entity
    kafka_type = each.metadata["kafka_type"]
    if kafka_type == "timedelta_i64":
        return Shape(name=name, step=span_step(name), size=8, memory=_MEMORY_OF_NUMBER)
    if size := _SIZES.get(kafka_type):
        memory = _MEMORY.get(kafka_type, _MEMORY_OF_NUMBER)
        step = fixed_step(size, name)
        return Shape(name=name, step=step, size=size, memory=memory, fixed=True)
    assert kafka_type in {"string", "bytes", "records"}, f"{name} has a type new to us"
    is_text = kafka_type == "string"
    size = 1 if flexible else 2 if is_text else 4
    read_length = length_reader(name, flexible=flexible, size=size)
    step = bytes_step(read_length, name, nullable=nullable, is_text=is_text)
    return Shape(name=name, step=step, size=size)


def _nullable_entity(entity: Shape, name: str) -> Shape:
    """Return the shape of an entity behind a marker byte: -1 null, 1 present (KIP-893)."""

    def nullable(walk: Walk, offset: int) -> int:
        marker = walk.body[offset] if offset < walk.end else None
        if marker == 1:
            return entity.step(walk, offset + 1)
        if marker == 0xFF:
            return offset + 1
        raise MalformedRequest(f"{name}: neither null nor present")

    return Shape(name=name, step=nullable, size=1, memory=entity.memory)


def _array_step(element: Shape, name: str, *, flexible: bool, nullable: bool) -> Step:
    step, size, fixed = element.step, element.size, element.fixed
    memory = element.memory + POINTER_BYTES
    read_length = length_reader(name, flexible=flexible, size=4)

    def array(walk: Walk, offset: int) -> int:
        length, offset = read_length(walk, offset)
        if length < 0:
            if nullable and length == -1:
                return offset
            raise MalformedRequest(f"{name}: array length {length}")
        if length:
            walk.memory_left -= OBJECT_BYTES
        walk.count(length, size, offset, name, memory)
        if fixed:
            return offset + length * size
        for _ in range(length):
            offset = step(walk, offset)
        return offset

    return array


def tagged_step(tagged: dict[int, Shape], entity_name: str) -> Step:
    """Return the step over an entity's tagged fields; it marks unknown ones to be taken out."""
    name = f"{entity_name} tagged fields"
    assert len(tagged) < 0x80, "the number of known ones is written as one byte"

    def tagged_fields(walk: Walk, offset: int) -> int:
        count, first = unsigned_varint(walk, offset, name)
        if not count:
            return first
        walk.count(count, 2, first, name)
        start, met = first, set[int]()
        for _ in range(count):
            tag, at = unsigned_varint(walk, start, name)
            size, at = unsigned_varint(walk, at, name)
            end = at + size
            if end > walk.end:
                raise MalformedRequest(f"{name}: tag {tag} has {size} bytes")
            shape = tagged.get(tag)
            # kio skips a known field's size, so edits inside the field need not change it.
            if shape is None or walk.body[at:end] == shape.null_tag:
                walk.drop(start, end, name)
            elif tag in met or shape.step(walk, at) != end:
                raise MalformedRequest(f"{shape.name}: comes twice, or has not {size} bytes")
            else:
                met.add(tag)
            start = end
        if len(met) < count:
            walk.replace(offset, first, bytes((len(met),)))
        return start

    return tagged_fields
