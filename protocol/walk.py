"""One pass over a request, and the steps over its simplest parts; protocol/shapes.py composes them.

A step takes the offset where something starts and returns the one where it ends, or refuses it with
MalformedRequest. It looks at lengths before it looks at what they measure, and builds nothing.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from protocol.errors import MalformedRequest, RequestTooLarge

Buffer = bytes | bytearray | memoryview

MAX_ELEMENTS: Final = 100_000  # of all arrays and tagged fields that are decoded at once
MAX_UNKNOWN_TAGS: Final = 10_000  # of one request: each costs memory beyond the request's own
MAX_TEXT_BYTES: Final = 0x7FFF  # Kafka's limit for a string, compact or not

MEMORY_FACTOR: Final = 8
MEMORY_BASE_BYTES: Final = 896 * 1024
"""A decoded request takes at most so many bytes for each of its own, and so many more. An array of
elements of 2 bytes would else become many times its size (as in CVE-2022-34917)."""

OBJECT_BYTES: Final = 56  # of a text, of bytes or of a tuple, whatever it holds
POINTER_BYTES: Final = 16  # to an element: it is in a list before it is in a tuple

_EDIT_BYTES: Final = 512  # its tuple and numbers, and the slice of the body before it

_MOST_BYTES_OF_CHARACTER: Final = 4
_MAX_SPAN_MS: Final = 10**15  # 31,000 years; kio refuses 290,000 and more

_INT16: Final = struct.Struct(">h").unpack_from
_INT32: Final = struct.Struct(">i").unpack_from
_INT64: Final = struct.Struct(">q").unpack_from


@dataclass(slots=True, kw_only=True)
class Walk:
    """One pass over one request.

    Attributes:
        elements_left: array elements and tagged fields that may still come.
        memory_left: bytes that what is decoded of the rest may take.
        unknown_tags: tagged fields met that kio must not see.
        edits: (start, stop, replacement) that take those out, disjoint, in no order.
    """

    body: Buffer
    end: int
    elements_left: int = MAX_ELEMENTS
    memory_left: int = field(init=False)
    unknown_tags: int = 0
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.memory_left = MEMORY_FACTOR * len(self.body) + MEMORY_BASE_BYTES

    def count(
        self, elements: int, minimal_size: int, offset: int, name: str, memory: int = 0
    ) -> None:
        """Refuse more elements than the bytes left can hold, or than may be decoded at once.

        Args:
            elements: that are announced.
            minimal_size: bytes that each has on the wire, at least.
            offset: where the first one starts.
            name: of what holds them.
            memory: bytes that each takes when it is decoded, without text and bytes in it.
        """
        self.elements_left -= elements
        self.memory_left -= elements * memory
        if elements * minimal_size > self.end - offset:
            raise MalformedRequest(f"{name}: {elements} elements do not fit")
        if self.elements_left < 0:
            raise RequestTooLarge(f"{name}: {elements} elements are too many")
        if self.memory_left < 0:
            raise RequestTooLarge(f"{name}: {elements} elements take too much memory")

    def drop(self, start: int, end: int, name: str) -> None:
        """Keep a tagged field from kio."""
        self.unknown_tags += 1
        if self.unknown_tags > MAX_UNKNOWN_TAGS:
            raise MalformedRequest(f"{name}: too many unknown ones")
        if self.edits and self.edits[-1][1] == start:
            start = self.edits.pop()[0]
            self.edits.append((start, end, b""))
        else:
            self.replace(start, end, b"")

    def replace(self, start: int, end: int, replacement: bytes) -> None:
        """Show kio other bytes."""
        self.memory_left -= _EDIT_BYTES if self.edits else 2 * len(self.body)  # parts, and joined
        self.edits.append((start, end, replacement))

    def forget_edits(self) -> None:
        """Go on without those that are done."""
        if self.edits:
            self.memory_left += 2 * len(self.body) + _EDIT_BYTES * (len(self.edits) - 1)
            self.edits = []
        self.unknown_tags = 0


Step = Callable[[Walk, int], int]  # the offset where something starts -> where it ends
LengthReader = Callable[[Walk, int], tuple[int, int]]  # offset -> length (-1: null), next offset


def fixed_step(size: int, name: str) -> Step:
    def fixed(walk: Walk, offset: int) -> int:
        offset += size
        if offset > walk.end:
            raise MalformedRequest(f"{name}: request ends early")
        return offset

    return fixed


def span_step(name: str) -> Step:
    """Return the step over a 64-bit time span; clients write Long.MAX_VALUE for "for ever"."""

    def span(walk: Walk, offset: int) -> int:
        end = offset + 8
        if end > walk.end:
            raise MalformedRequest(f"{name}: request ends early")
        span_ms = _INT64(walk.body, offset)[0]
        if abs(span_ms) > _MAX_SPAN_MS:
            nearest = _MAX_SPAN_MS if span_ms > 0 else -_MAX_SPAN_MS
            walk.replace(offset, end, nearest.to_bytes(8, signed=True))
        return end

    return span


def bytes_step(read_length: LengthReader, name: str, *, nullable: bool, is_text: bool) -> Step:
    def variable(walk: Walk, offset: int) -> int:
        length, offset = read_length(walk, offset)
        if length < 0:
            if nullable and length == -1:
                return offset
            raise MalformedRequest(f"{name}: length {length}")
        end = offset + length
        if end > walk.end:
            raise MalformedRequest(f"{name}: {length} bytes, {walk.end - offset} are left")
        if is_text:
            if length > MAX_TEXT_BYTES:
                raise MalformedRequest(f"{name}: {length} bytes of text")
            try:
                text = str(walk.body[offset:end], "utf-8")
            except UnicodeDecodeError as error:
                raise MalformedRequest(f"{name}: not UTF-8") from error
            if not text.isascii():
                walk.memory_left -= _MOST_BYTES_OF_CHARACTER * len(text)
        if length > 1:  # shorter ones are shared
            walk.memory_left -= length + OBJECT_BYTES
        return end

    return variable


def length_reader(name: str, *, flexible: bool, size: int) -> LengthReader:
    if flexible:

        def compact(walk: Walk, offset: int) -> tuple[int, int]:
            length, offset = unsigned_varint(walk, offset, name)
            return length - 1, offset

        return compact

    unpack = _INT16 if size == 2 else _INT32

    def plain(walk: Walk, offset: int) -> tuple[int, int]:
        end = offset + size
        if end > walk.end:
            raise MalformedRequest(f"{name}: request ends early")
        return unpack(walk.body, offset)[0], end

    return plain


def unsigned_varint(walk: Walk, offset: int, name: str) -> tuple[int, int]:
    body = walk.body
    if offset < walk.end and (byte := body[offset]) < 0x80:
        return byte, offset + 1
    value = shift = 0
    for position in range(offset, min(offset + 5, walk.end)):
        byte = body[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise MalformedRequest(f"{name}: a varint does not end")
