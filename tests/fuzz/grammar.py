"""Any request of any API and version as bytes, valid by its schema, with the places of its lengths.

The rules are those of protocol/shapes.py, taken from kio's dataclasses a second time: what is made
here, and refused there, is a difference that a test finds. Values come from a `random.Random`, so a
seed repeats a run, and Hypothesis, which brings a Random of its own, shrinks what it finds.
"""

import struct
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import cache
from random import Random
from types import NoneType, UnionType
from typing import Any, Final, Union, cast, get_args, get_origin

from kio.static.protocol import Entity

from protocol.codec import write_uvarint
from tests.fuzz.payloads import PAYLOADS
from tests.fuzz.values import INTEGERS, pick, some_bytes, some_text, some_uuid

MAX_ELEMENTS: Final = 3
LONG_ARRAY_BYTES: Final = 48 * 1024
_ONE_IN_LONG: Final = 300
_MAX_SPAN_MS: Final = 2**40

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_SPANS: Final = {"timedelta_i32": 4, "timedelta_i64": 8, "datetime_i64": 8}
_OTHERS: Final[dict[str, Callable[[Random], bytes]]] = {
    "uuid": some_uuid,
    "bool": lambda random: b"\x01" if random.random() < 0.5 else b"\x00",
    "error_code": lambda random: _INT16.pack(int(random.random() * 120) - 1),
    "float64": lambda random: struct.pack(">d", random.random() * 1e9),
}


@dataclass(slots=True)
class Draft:
    """Bytes in the making.

    Attributes:
        marks: (where, bytes) of each length, count, null marker and section of tagged fields.
        deep: arrays around what is written now.
    """

    random: Random
    out: bytearray = field(default_factory=bytearray)
    marks: list[tuple[int, int]] = field(default_factory=list)
    deep: int = 0

    def mark(self, encoded: bytes) -> None:
        """Append something that other bytes depend on."""
        self.marks.append((len(self.out), len(encoded)))
        self.out += encoded


Maker = Callable[[Draft], None]


@cache
def entity_maker(entity_type: type[Entity]) -> Maker:
    """Return what appends a random entity of that type."""
    name, flexible = entity_type.__name__, entity_type.__flexible__
    plain: list[Maker] = []
    tagged: list[tuple[int, Maker]] = []
    for each in fields(cast("Any", entity_type)):
        maker = _field_maker(each, f"{name}.{each.name}", flexible=flexible)
        if "tag" in each.metadata:
            tagged.append((each.metadata["tag"], maker))
        else:
            plain.append(maker)
    if flexible:
        plain.append(_tagged_maker(tagged))
    makers = tuple(plain)

    def entity(draft: Draft) -> None:
        for make in makers:
            make(draft)

    return entity


def _field_maker(each: Field[Any], name: str, *, flexible: bool) -> Maker:
    wanted: Any = each.type
    nullable = get_origin(wanted) in {UnionType, Union}
    if nullable:
        (wanted,) = (part for part in get_args(wanted) if part is not NoneType)
    if get_origin(wanted) is tuple:
        element = _value_maker(get_args(wanted)[0], each, name, flexible=flexible, nullable=False)
        return _array_maker(element, flexible=flexible, nullable=nullable)
    return _value_maker(wanted, each, name, flexible=flexible, nullable=nullable)


def _value_maker(
    wanted: Any, each: Field[Any], name: str, *, flexible: bool, nullable: bool
) -> Maker:
    if is_dataclass(wanted):
        entity = entity_maker(cast("type[Entity]", wanted))
        return _nullable_entity(entity) if nullable else entity
    kind: str = each.metadata["kafka_type"]
    if kind in {"string", "bytes", "records"}:
        make = PAYLOADS.get(name) or (some_text if kind == "string" else some_bytes)
        return _bytes_maker(make, 2 if kind == "string" else 4, flexible=flexible, null=nullable)
    if kind in _SPANS:
        return _plain_maker(_some_time(_SPANS[kind]))
    if kind in _OTHERS:
        return _plain_maker(_OTHERS[kind])
    values = INTEGERS[kind]
    return _plain_maker(lambda random: pick(random, values))


def _plain_maker(make: Callable[[Random], bytes]) -> Maker:
    def plain(draft: Draft) -> None:
        draft.out += make(draft.random)

    return plain


def _some_time(size: int) -> Callable[[Random], bytes]:
    most = 2**31 - 1 if size == 4 else _MAX_SPAN_MS

    def time_ms(random: Random) -> bytes:
        chosen = random.random()
        value = -1 if chosen < 0.1 else int(chosen * chosen * chosen * most)
        return value.to_bytes(size, "big", signed=True)

    return time_ms


def _bytes_maker(
    make: Callable[[Random], bytes], size: int, *, flexible: bool, null: bool
) -> Maker:
    layout = _INT16 if size == 2 else _INT32

    def variable(draft: Draft) -> None:
        if null and draft.random.random() < 0.2:
            draft.mark(b"\0" if flexible else layout.pack(-1))
            return
        data = make(draft.random)
        draft.mark(write_uvarint(len(data) + 1) if flexible else layout.pack(len(data)))
        draft.out += data

    return variable


def _nullable_entity(entity: Maker) -> Maker:
    def nullable(draft: Draft) -> None:
        if draft.random.random() < 0.4:
            draft.mark(b"\xff")
            return
        draft.mark(b"\x01")
        entity(draft)

    return nullable


def _array_maker(element: Maker, *, flexible: bool, nullable: bool) -> Maker:
    def length(count: int) -> bytes:
        return write_uvarint(count + 1) if flexible else _INT32.pack(count)

    def array(draft: Draft) -> None:
        chosen = draft.random.random()
        if nullable and chosen < 0.1:
            draft.mark(length(-1))
            return
        if chosen > 1 - 1 / _ONE_IN_LONG and draft.deep < 2:
            _long_array(draft, element, length)
            return
        count = int(chosen * (MAX_ELEMENTS + 1))
        if draft.deep >= 2:
            count = min(count, 1)
        draft.mark(length(count))
        draft.deep += 1
        for _ in range(count):
            element(draft)
        draft.deep -= 1

    return array


def _long_array(draft: Draft, element: Maker, length: Callable[[int], bytes]) -> None:
    """Append one element very many times: only arrays make requests large."""
    one = Draft(draft.random, deep=2)
    element(one)
    size = max(len(one.out), 1)
    count = 1 + int(draft.random.random() * (LONG_ARRAY_BYTES // size))
    draft.mark(length(count))
    draft.out += one.out * count


def _tagged_maker(tagged: list[tuple[int, Maker]]) -> Maker:
    """Return the maker of a section of tagged fields: known ones, and some that nobody knows."""

    def tagged_fields(draft: Draft) -> None:
        random = draft.random
        chosen = random.random()
        if chosen < 0.7 and not tagged:
            draft.mark(b"\0")
            return
        written = [(tag, make) for tag, make in tagged if random.random() < 0.5]
        unknown = int((chosen - 0.7) * 10) if chosen > 0.8 else 0
        draft.mark(write_uvarint(len(written) + unknown))
        for tag, make in written:
            value = Draft(random, deep=draft.deep + 1)
            make(value)
            draft.out += write_uvarint(tag)
            draft.mark(write_uvarint(len(value.out)))
            draft.out += value.out
        for number in range(unknown):
            data = some_bytes(random)
            draft.out += write_uvarint(10_000 + number)
            draft.mark(write_uvarint(len(data)))
            draft.out += data

    return tagged_fields
