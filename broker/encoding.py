"""Responses as bytes, without keeping the event loop from everybody else."""

import asyncio
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final

from kio.static.protocol import Payload

from protocol.codec import encode_response

_MANY: Final = 500
"""Entries that take some milliseconds; a small request may ask for any number of them."""


async def encoded(correlation_id: int, response: Payload) -> bytes:
    """Return the whole response frame; a thread makes it if that takes long."""
    if _is_long(response):
        return await asyncio.to_thread(encode_response, correlation_id, response)
    return encode_response(correlation_id, response)


def _is_long(response: Payload) -> bool:
    """Whether its lists have many entries together, however they are nested.

    That is a matter of microseconds: it looks at nothing but lists, and at no more than it needs.
    """
    entities, count = list[Any]([response]), 0
    while entities and count <= _MANY:
        entity = entities.pop()
        for name in _names_of_lists(entity.__class__):
            value = getattr(entity, name)
            entries = value if isinstance(value, tuple) else (value,)
            count += len(entries)
            if entries and _names_of_lists(entries[0].__class__):
                entities += entries
    return count > _MANY


@cache
def _names_of_lists(kind: type) -> tuple[str, ...]:
    """Return the names of an entity's fields that are lists, or entities, which may have some."""
    if not is_dataclass(kind):
        return ()
    return tuple(
        field.name
        for field in fields(kind)
        if "tuple[" in str(field.type) or is_dataclass(field.type)
    )
