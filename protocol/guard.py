"""Proof that a request's bytes are safe to decode, before anything is allocated for them (D11).

kio's native reader reserves memory from array lengths as it finds them on the wire, so twelve bytes
can abort the whole process; it takes a null where the schema allows none, and refuses the tagged
fields of newer clients that KIP-482 tells to ignore. Hence every request is walked first, along its
schema and without building values (protocol/shapes.py): lengths and counts against the bytes that
are left, nulls, tagged fields and text. Only then kio decodes it: an accepted request costs a small
multiple of its own size, a refused one nothing. What the walk leaves to kio are values of the right
size (a bool that is 2, a time beyond datetime's range): those it refuses with ValueError.

Like Apache Kafka 4.3 (tried): bytes after the end of a request are ignored. Stricter than it, where
no client differs: text is UTF-8, a bool is 0 or 1, null is exactly -1, and a known tagged field
comes once and has the size that it announces.
"""

from typing import TypeVar

from kio.serial import entity_reader
from kio.serial.errors import DecodeError
from kio.static.protocol import Entity

from protocol.errors import MalformedRequest
from protocol.shapes import entity_shape
from protocol.walk import Buffer, Walk

EntityT = TypeVar("EntityT", bound=Entity)


def check_request(request_type: type[Entity], body: Buffer, offset: int) -> int:
    """Return the offset where the request ends that starts at `offset`.

    Raises:
        MalformedRequest: naming the field.
    """
    return entity_shape(request_type).step(Walk(body=body, end=len(body)), offset)


def decode_request(request_type: type[EntityT], body: Buffer, offset: int) -> EntityT:
    """Return the request that starts at `offset`; its bytes and records are copies.

    Raises:
        MalformedRequest: naming the field.
    """
    return decode_entity(request_type, body, offset)[0]


def decode_entity(entity_type: type[EntityT], body: Buffer, offset: int) -> tuple[EntityT, int]:
    """Return a request, or any other kio entity, and the offset where it ends.

    Raises:
        MalformedRequest: naming the field.
    """
    return decode_walked(entity_type, Walk(body=body, end=len(body)), offset)


def decode_walked(entity_type: type[EntityT], walk: Walk, offset: int) -> tuple[EntityT, int]:
    """Return the entity at `offset`, within the limits of `walk`, and the offset where it ends.

    Raises:
        RequestTooLarge: it is beyond them.
        MalformedRequest: naming the field.
    """
    body = walk.body
    end = entity_shape(entity_type).step(walk, offset)
    walk.count(0, 0, end, entity_type.__name__)  # the last texts and edits were not checked yet
    if walk.edits:
        body, offset = _edited(body, walk.edits, offset, end), 0
    try:
        # kio reads only from read-only memory. A writable frame may not change size meanwhile.
        with memoryview(body).toreadonly() as readable:
            return entity_reader(entity_type)(readable, offset)[0], end
    # Fuzzing found kio to raise ValueError for values and DecodeError for structure; the walk has
    # excluded the latter, and KeyError (unknown tags), aborts and MemoryError (array lengths).
    # No bytes made it panic, which would be a BaseException.
    except (DecodeError, ValueError) as error:
        raise MalformedRequest(f"{entity_type.__name__}: {error}") from error


def _edited(body: Buffer, edits: list[tuple[int, int, bytes]], offset: int, end: int) -> bytes:
    """Return body[offset:end] with each (start, stop, replacement) done."""
    parts: list[Buffer] = []
    for start, stop, replacement in sorted(edits):
        parts += (body[offset:start], replacement)
        offset = stop
    return b"".join((*parts, body[offset:end]))
